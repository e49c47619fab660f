/**
 * Text of others on a terminal, which breaks long lines by itself: what follows would begin where only our own lines
 * do, so a member could imitate the message of another.
 */

/** The most columns of a sign that is not ASCII. */
const WIDE = 2
/** With fewer columns, a text begins in the next line. */
const LEAST_FIRST = 16

/** The parts of a line: the first in so many columns, which may be none, and the others in `rest`. */
export function wrapped(line: string, first: number, rest: number): readonly string[] {
  if (line.length * WIDE <= first || rest === Infinity) return [line]
  const parts: string[] = []
  let [part, width, room] = ['', 0, first < LEAST_FIRST ? 0 : first]
  for (const segment of segmentsOf(line)) {
    const columns = columnsOf(segment)
    if (width + columns > room) {
      parts.push(part)
      ;[part, width, room] = ['', 0, Math.max(WIDE, rest)]
    }
    part += segment
    width += columns
  }
  return [...parts, part]
}

/** What must not be torn apart. */
function segmentsOf(line: string): Iterable<string> {
  if (isAscii(line)) return line
  return Iterator.from(new Intl.Segmenter().segment(line)).map(({ segment }) => segment)
}

/** Not fewer than a terminal needs. */
function columnsOf(segment: string): number {
  if (isAscii(segment)) return segment.length
  return Array.from(segment).filter((sign) => !/^\p{M}$/u.test(sign)).length * WIDE
}

function isAscii(text: string): boolean {
  return /^[ -~]*$/.test(text)
}
