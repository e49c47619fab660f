/**
 * Planted bugs: each patch in this folder breaks one promise, and names the test files that must then fail (all of
 * them). A patch starts with the lines `About:` and `Proof:`, once or more; a unified diff follows. Its line numbers do
 * not matter: each hunk must occur exactly once in its file, so a patch survives changes elsewhere, and fails where the
 * code it breaks has changed.
 */
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'

/** A bug, as its patch describes it. */
export interface PlantedBug {
  readonly name: string
  readonly about: string
  /** The test files that must fail. */
  readonly proofs: readonly string[]
  readonly hunks: readonly Hunk[]
}

/** A change of consecutive lines of one file. */
export interface Hunk {
  readonly path: string
  readonly before: string
  readonly after: string
}

/** All bugs of a checkout, by name. */
export function plantedBugs(root: string): PlantedBug[] {
  const folder = join(root, 'lab/bugs')
  return globSync('*.patch', { cwd: folder })
    .sort()
    .map((file) => parsePatch(basename(file, '.patch'), readFileSync(join(folder, file), 'utf8')))
}

/** Reads a patch. Throws if it does not state what it breaks. */
export function parsePatch(name: string, text: string): PlantedBug {
  const about = /^About: (.+)$/m.exec(text)?.[1]
  const proofs = [...text.matchAll(/^Proof: (.+)$/gm)].map(([, proof = '']) => proof)
  if (about === undefined || proofs.length === 0)
    throw new Error(`${name}.patch needs the lines "About:" and "Proof:".`)
  const hunks: Hunk[] = []
  for (const file of text.split(/^diff --git .*\n/m).slice(1)) {
    const path = /^\+\+\+ b\/(.+)$/m.exec(file)?.[1]
    if (path === undefined) throw new Error(`${name}.patch does not name the file that it changes.`)
    for (const hunk of file.split(/^@@ .*\n/m).slice(1)) hunks.push({ path, ...sides(hunk) })
  }
  if (hunks.length === 0) throw new Error(`${name}.patch changes nothing.`)
  return { name, about, proofs, hunks }
}

/** Applies a hunk to the text of its file. Throws if it does not occur exactly once. */
export function applyHunk(text: string, { path, before, after }: Hunk): string {
  const parts = text.split(before)
  if (parts.length !== 2)
    throw new Error(`A hunk occurs ${parts.length - 1} times in ${path}. It must occur once:\n${before}`)
  return parts.join(after)
}

function sides(hunk: string): { before: string; after: string } {
  const lines = hunk.split('\n').slice(0, -1)
  const side = (other: string): string =>
    lines
      .filter((line) => !line.startsWith(other))
      .map((line) => `${line.slice(1)}\n`)
      .join('')
  return { before: side('+'), after: side('-') }
}
