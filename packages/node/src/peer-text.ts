/** What a peer says, made fit for an error message: one line of bounded length. */

const MOST_CHARACTERS = 200

/** The text without control characters, cut short if need be. */
export function peerText(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim()
  return line.length <= MOST_CHARACTERS ? line : `${line.slice(0, MOST_CHARACTERS)}…`
}

/** The same as a sentence: with a full stop, unless it has an end already. */
export function peerSentence(text: string): string {
  const line = peerText(text)
  return line === '' || /[.!?…]$/.test(line) ? line : `${line}.`
}
