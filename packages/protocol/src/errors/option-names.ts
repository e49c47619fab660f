/**
 * Refuses options that a call does not know. Otherwise a misspelled one would be ignored, and the call would do
 * something else than its caller wrote.
 */
import { StaticError } from './errors.ts'

/** No name of an option is longer. */
const LONGEST = 64
/** The part of a name that may be mistyped. */
const MISTYPED: number = 1 / 3

/**
 * Checks the options of a call.
 *
 * @throws {StaticError} `invalid_request` unless they are an object with known names only
 */
export function checkOptionNames(call: string, options: unknown, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    const isNothing = options === null || options === undefined
    const kind = isNothing ? String(options) : Array.isArray(options) ? 'a list' : `a ${typeof options}`
    throw StaticError.of('invalid_request', `The options of \`${call}\` must be an object, not ${kind}.`)
  }
  const unknown = Object.keys(options).find((name) => !known.includes(name))
  if (unknown === undefined) return
  const nearest = nearestName(unknown, known)
  const remedy = nearest === undefined ? `It takes ${listed(known)}.` : `The nearest is \`${nearest}\`.`
  throw StaticError.of('invalid_request', `\`${call}\` has no option \`${unknown.slice(0, LONGEST)}\`. ${remedy}`)
}

/** The name that a mistyped one most likely stands for; undefined if none is close. */
export function nearestName(word: string, names: readonly string[]): string | undefined {
  if (word.length > LONGEST) return undefined
  const ranked = names
    .map((name) => ({ name, distance: distanceOf(plain(word), plain(name)) }))
    .toSorted((one, other) => one.distance - other.distance)
  const [best] = ranked
  return best && best.distance <= 1 ? best.name : undefined
}

/** Without what differs between conventions: `max_uses` is `maxUses`. */
function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[-_]/g, '')
}

/** 0 for the same name, at most 1 for one that is close: a part of it, or the same but for a third of its letters. */
function distanceOf(word: string, name: string): number {
  if (word === name) return 0
  const edits = editsBetween(word, name) / (MISTYPED * Math.max(word.length, name.length))
  const isPart = Math.min(word.length, name.length) >= 2 && (word.includes(name) || name.includes(word))
  return isPart ? Math.min(1, edits) : edits
}

/** How many letters must be inserted, deleted, replaced or swapped with the next one. */
function editsBetween(one: string, other: string): number {
  const rows = [Array.from({ length: other.length + 1 }, (_, at) => at)]
  const edits = (row: number, column: number): number => rows[row]?.[column] ?? 0
  for (let row = 1; row <= one.length; row++) {
    const next = [row]
    rows.push(next)
    for (let column = 1; column <= other.length; column++) {
      const isSame = one[row - 1] === other[column - 1]
      const isSwapped = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]
      next.push(
        Math.min(
          edits(row - 1, column) + 1,
          edits(row, column - 1) + 1,
          edits(row - 1, column - 1) + (isSame ? 0 : 1),
          isSwapped ? edits(row - 2, column - 2) + 1 : Infinity,
        ),
      )
    }
  }
  return edits(one.length, other.length)
}

function listed(names: readonly string[]): string {
  const quoted = names.map((name) => `\`${name}\``)
  const last = quoted.pop() ?? 'none'
  return quoted.length === 0 ? `only ${last}` : `${quoted.join(', ')} and ${last}`
}
