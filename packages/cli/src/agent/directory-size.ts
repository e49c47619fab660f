/** How much a directory of saved files holds. */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { isErrno } from '@static/node/files'

/** The bytes of the files in a directory. */
export function totalOf(directory: string): number {
  let total = 0
  for (const name of readdirSync(directory)) {
    try {
      const found = statSync(join(directory, name))
      if (found.isFile()) total += found.size
    } catch (error) {
      // It is just being moved away.
      if (!isErrno(error, 'ENOENT')) throw error
    }
  }
  return total
}
