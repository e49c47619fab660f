/** The output of a command: results on stdout, everything else on stderr, colours on terminals only. */
import { styleText } from 'node:util'
import { redactSecrets } from '@static/protocol'

type Style = Parameters<typeof styleText>[0]
type Stream = typeof process.stdout | typeof process.stderr

/** Empties the line of a terminal. */
export const CLEAR_LINE = '\r\u001B[K'

/** Characters that affect a terminal or are invisible, such as variation selectors, which can hide whole texts. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/** Prints a result to stdout. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

/** Prints a result as one JSON document, without characters that affect a terminal. */
export function printJson(value: unknown): void {
  print(plainJson(value))
}

/** Most JSON is plain: testing for ASCII takes a fraction of the time of testing character properties. */
const PLAIN = /^[ -~]*$/

/** JSON with escaped control, formatting and invisible characters, which JSON allows in strings. */
export function plainJson(value: unknown): string {
  const json = JSON.stringify(value)
  if (PLAIN.test(json)) return json
  return json.replaceAll(INVISIBLE, (sign) =>
    // In code units: JSON has no escape for a character beyond U+FFFF.
    Array.from({ length: sign.length }, (_, at) => `\\u${sign.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
  )
}

/** Limit of unread notes. A program that reads only stdout must not fill the memory of a long-running command. */
const MOST_UNREAD_BYTES = 64 * 1024

/** Prints a hint or warning to stderr, unless earlier output there is unread. */
export function note(text: string): void {
  if (process.stderr.writableLength > MOST_UNREAD_BYTES) return
  process.stderr.write(`static: ${readable(text)}\n`)
}

/** An error or hint in printable form, without the secrets of a mistyped command line. */
export function readable(text: string): string {
  return redactSecrets(printable(text))
}

let accountInHints = ''

/** Suggested commands are for this account. */
export function nameAccountInHints(account: string): void {
  accountInHints = ` --account ${account}`
}

/** The command as the user would type it: with `npx` in a checkout, where `static` is not on the PATH. */
export function commandLine(words: string): string {
  return `${process.env['npm_execpath'] === undefined ? 'static' : 'npx static'} ${words}${accountInHints}`
}

/** A word of a command line, quoted for a shell if it must be. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/** Styles the text if the stream is a terminal with colours. Honours NO_COLOR. */
export function styled(style: Style, text: string, stream: Stream = process.stdout): string {
  return styleText(style, text, { stream })
}

/**
 * Makes untrusted text safe for a terminal: escapes control characters, which could move the cursor or reconfigure the
 * terminal, and characters that change the text direction or are invisible.
 */
export function printable(text: string): string {
  return text.replaceAll(INVISIBLE, (sign) => {
    const code = sign.codePointAt(0) ?? 0
    return code > 0xff ? `\\u{${code.toString(16)}}` : `\\x${code.toString(16).padStart(2, '0')}`
  })
}

/** Formats rows as a table with a heading. */
export function table(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  const safe = rows.map((row) => row.map(printable))
  const widths = heading.map((title, column) =>
    Math.max(title.length, ...safe.map((row) => widthOf(row[column] ?? ''))),
  )
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => cell + ' '.repeat((widths[column] ?? 0) - widthOf(cell)))
      .join('  ')
      .trimEnd()
  return [styled('bold', line(heading)), ...safe.map(line)].join('\n')
}

/** Width in graphemes. */
function widthOf(text: string): number {
  // Avoids creating a segmenter, which takes several milliseconds.
  if (/^[ -~]*$/.test(text)) return text.length
  return [...new Intl.Segmenter().segment(text)].length
}

/** Formats name-value pairs, one per line. */
export function facts(pairs: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(...pairs.map(([name]) => name.length))
  return pairs.map(([name, value]) => `${styled('dim', name.padEnd(width))}  ${printable(value)}`).join('\n')
}

/** Formats a timestamp of the API in UTC, to the minute. */
export function shortTime(time: string | null): string {
  return time === null ? 'never' : `${time.slice(0, 16).replace('T', ' ')} UTC`
}
