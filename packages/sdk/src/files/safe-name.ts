/**
 * Names for files of others. The sender chooses the name of a file; on this machine it must not lead anywhere, hide what
 * it is, or be one that a file system does not take.
 */
import { utf8 } from '../platform/bytes.ts'

/** File systems take 255 bytes; `.part` and a number must fit as well. */
const MOST_BYTES = 200
const USUAL = 'file'
/** Names of devices on Windows, with any ending. */
const RESERVED = /^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$|clock\$)$/i
/** What separates paths, what Windows does not take, and all that is invisible or changes the direction of text. */
const UNSAFE = /[/\\:*?"<>|\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/** A name for a file in a directory, as close to the given one as is safe. */
export function safeName(name: string): string {
  const flat = name
    .normalize('NFC')
    .replaceAll(UNSAFE, '_')
    // Hidden, `.` and `..`; on Windows, dots and spaces at the end vanish.
    .replace(/^[.\s]+/u, '')
    .replace(/[.\s]+$/u, '')
  const [stem, ending] = splitName(flat)
  const shown = /[^_]/.test(flat) ? stem : USUAL
  // Windows looks only at what is before the first dot.
  const first = shown.split('.', 1)[0]?.trimEnd() ?? ''
  return shortened(RESERVED.test(first) ? `_${shown}` : shown, ending)
}

/** A name with a number, for a directory where it is taken: `report-2.pdf`. */
export function numberedName(name: string, number: number): string {
  const [stem, ending] = splitName(name)
  return `${stem}-${number}${ending}`
}

function splitName(name: string): readonly [string, string] {
  const dot = name.lastIndexOf('.')
  return dot <= 0 ? [name, ''] : [name.slice(0, dot), name.slice(dot)]
}

function shortened(stem: string, ending: string): string {
  const kept = cut(ending, MOST_BYTES / 4)
  // A cut may leave a dot or a space at the end.
  return (cut(stem, MOST_BYTES - utf8(kept).length) + kept).replace(/[.\s]+$/u, '')
}

/** The first characters of a text, whole ones. */
function cut(text: string, most: number): string {
  let [bytes, kept] = [0, '']
  for (const character of text) {
    bytes += utf8(character).length
    if (bytes > most) break
    kept += character
  }
  return kept
}
