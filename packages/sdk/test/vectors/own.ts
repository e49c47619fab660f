/** The vectors of our own formats, which `tests/vectors/make.ts` makes. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

const folder = resolve(import.meta.dirname, '../../../../tests/vectors')

/** Reads a file of vectors; its byte strings are hex. */
export function readVectors(name: string): unknown {
  return JSON.parse(readFileSync(resolve(folder, name), 'utf8'))
}
