/** Calls back before every step of a store: each statement, each pragma and each change of a file. */
import fs from 'node:fs'
import { createRequire, syncBuiltinESMExports } from 'node:module'

type Method = (...values: unknown[]) => unknown

const FILES = [
  'mkdirSync',
  'openSync',
  'fchmodSync',
  'writeFileSync',
  'writeSync',
  'fsyncSync',
  'fdatasyncSync',
  'linkSync',
  'renameSync',
  'rmSync',
]

let listener: (() => void) | undefined
let failing: string | undefined
let failure = 'EIO'

/** From now on, for this process. Undefined: no longer. What the listener itself does is not a step. */
export function beforeEveryStep(called: (() => void) | undefined): void {
  listener = called
}

/** Lets a call of the file system, or a statement, fail from now on, until the returned function is called. */
export function failingStep(
  step: 'writeSync' | 'fdatasyncSync' | 'all' | 'COMMIT' | 'wal_checkpoint(TRUNCATE)' | 'fsyncSync',
  errno: 'EIO' | 'ENOSPC' = 'EIO',
): () => void {
  failing = step
  failure = errno
  return () => (failing = undefined)
}

function watch(methods: Record<string, Method>, names: readonly string[]): void {
  for (const name of names) {
    const original = methods[name]!
    methods[name] = function (this: unknown, ...values: unknown[]) {
      const called = listener
      listener = undefined
      called?.()
      listener = called
      const source = (this as { readonly source?: string } | undefined)?.source
      if (failing !== undefined && [name, source, values[0]].includes(failing)) {
        throw Object.assign(new Error(`${failure}: the disk has failed`), { code: failure })
      }
      return original.apply(this, values)
    }
  }
}

const Library = createRequire(import.meta.url)('better-sqlite3-multiple-ciphers')
const scratch = new Library(':memory:')
watch(Object.getPrototypeOf(scratch.prepare('SELECT 1')), ['run', 'get', 'all'])
watch(Library.prototype, ['exec', 'pragma', 'close'])
scratch.close()
watch(fs as unknown as Record<string, Method>, FILES)
syncBuiltinESMExports()
