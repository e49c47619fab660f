/** Inputs that reached something new, kept for later runs: one file for each target, a line of hex for each input. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'

const FOLDER = resolve(import.meta.dirname, '../../../../lab/fuzz/corpus')
/** Maximum size of a file, to keep the repository small. */
const MOST_BYTES = 16_384
/** A KeyPackage with its key of ML-KEM-768 takes about 1,600 bytes. */
const MOST_INPUT_BYTES = 2048

export function readCorpus(name: string): Uint8Array[] {
  const path = pathOf(name)
  if (!existsSync(path)) return []
  const lines = readFileSync(path, 'utf8').split('\n')
  return lines.slice(0, -1).map((line) => Uint8Array.from(Buffer.from(line, 'hex')))
}

/** Keeps as many as fit, the shortest first. Earlier ones stay. */
export function saveCorpus(name: string, inputs: readonly Uint8Array[]): void {
  let room = MOST_BYTES
  const known = new Set(readCorpus(name).map(hexOf))
  const lines = inputs.filter(({ length }) => length <= MOST_INPUT_BYTES).map(hexOf)
  const sorted = [...new Set(lines)].sort((a, b) => Number(known.has(b)) - Number(known.has(a)) || a.length - b.length)
  const kept = sorted.filter((line) => (room -= line.length + 1) >= 0)
  const text = kept.sort((a, b) => a.length - b.length || (a < b ? -1 : 1)).map((line) => `${line}\n`)
  writeFileSync(pathOf(name), text.join(''))
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}

function pathOf(name: string): string {
  return resolve(FOLDER, `${name}.txt`)
}
