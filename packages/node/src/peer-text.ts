/** Text from a peer, cleaned for an error message: one line of bounded length. */

const MOST_CHARACTERS = 200

/** Removes control characters and truncates the text if it is too long. */
export function peerText(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim()
  return line.length <= MOST_CHARACTERS ? line : `${line.slice(0, MOST_CHARACTERS)}…`
}

/** Like `peerText`, with a full stop at the end unless it already ends a sentence. */
export function peerSentence(text: string): string {
  const line = peerText(text)
  return line === '' || /[.!?…]$/.test(line) ? line : `${line}.`
}
