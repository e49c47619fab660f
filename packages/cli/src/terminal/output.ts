/** What a command prints: answers on stdout, everything else on stderr, colours on terminals only. */
import { styleText } from 'node:util'

type Style = Parameters<typeof styleText>[0]
type Stream = typeof process.stdout | typeof process.stderr

/** One line, or several, of the answer. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

/** The answer as one document. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value))
}

/** A word beside the answer, for the person at the terminal. */
export function note(text: string): void {
  process.stderr.write(`static: ${printable(text)}\n`)
}

/** How a command is typed here: in a checkout, where npm starts it, it is on no path. */
export function commandLine(words: string): string {
  return `${process.env['npm_execpath'] === undefined ? 'static' : 'npx static'} ${words}`
}

/** Coloured if the stream is a terminal that wants it (NO_COLOR is honoured). */
export function styled(style: Style, text: string, stream: Stream = process.stdout): string {
  return styleText(style, text, { stream })
}

/**
 * A text of somebody else, fit for a terminal: control characters, which could move the cursor or change the terminal,
 * and those that turn the direction of writing are shown as codes.
 */
export function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (sign) => {
    const code = sign.codePointAt(0) ?? 0
    return code > 0xff ? `\\u{${code.toString(16)}}` : `\\x${code.toString(16).padStart(2, '0')}`
  })
}

/** Rows under a heading, in columns. */
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

/** In signs, as people count them. */
function widthOf(text: string): number {
  return [...new Intl.Segmenter().segment(text)].length
}

/** Names and values, one a line. */
export function facts(pairs: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(...pairs.map(([name]) => name.length))
  return pairs.map(([name, value]) => `${styled('dim', name.padEnd(width))}  ${printable(value)}`).join('\n')
}

/** A time of the API for people, in UTC, to the minute. */
export function shortTime(time: string | null): string {
  return time === null ? 'never' : `${time.slice(0, 16).replace('T', ' ')} UTC`
}
