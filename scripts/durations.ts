/** How long each test file took when `npm test` ran it last: .cache/durations.tsv. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const FILE = '.cache/durations.tsv'

/** Starts slow files first, so that no core is idle at the end while another runs one. Keeps the order of new files. */
export function longestFirst(root: string, files: readonly string[]): string[] {
  const path = join(root, FILE)
  const lines = existsSync(path) ? readFileSync(path, 'utf8').trimEnd().split('\n') : []
  const known = new Map(lines.map((line) => line.split('\t')).map(([seconds, file = '']) => [file, Number(seconds)]))
  const seconds = (file: string): number => known.get(file) ?? Infinity
  return files.toSorted((a, b) => (seconds(a) === seconds(b) ? 0 : seconds(b) - seconds(a)))
}

/** Saves the durations of a whole run. */
export function saveDurations(root: string, durations: ReadonlyMap<string, number>): void {
  const path = join(root, FILE)
  const longest = [...durations].sort(([, a], [, b]) => b - a)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, longest.map(([file, seconds]) => `${seconds.toFixed(1)}\t${file}\n`).join(''))
}
