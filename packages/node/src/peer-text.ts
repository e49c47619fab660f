/** Text from a peer, cleaned for an error message: one line of bounded length. */

const MOST_CHARACTERS = 200

/** Removes control characters and truncates the text if it is too long. */
export function peerText(text: string, most: number = MOST_CHARACTERS): string {
  const line = text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\s]+/gu, ' ').trim()
  return line.length <= most ? line : `${line.slice(0, most)}…`
}

/** Like `peerText`, with a full stop at the end unless it already ends a sentence. */
export function peerSentence(text: string, most?: number): string {
  const line = peerText(text, most)
  return line === '' || /[.!?…]$/.test(line) ? line : `${line}.`
}
