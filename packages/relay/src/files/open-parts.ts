/** The place of the bytes of files, as the operator names it. */
import { resolve } from 'node:path'
import { makeDirectories } from '@static/node/files'
import type { Parts } from '../ports.ts'
import { DirectoryParts } from './directory.ts'

/** Opens a directory; makes it, for this user alone, if there is none. */
export function openParts(store: string): Parts {
  const root = resolve(store)
  makeDirectories(root)
  return new DirectoryParts(root)
}
