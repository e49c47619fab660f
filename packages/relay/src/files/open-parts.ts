/** The place of the bytes of files, as the operator names it. */
import { resolve } from 'node:path'
import { makeDirectories } from '@static/node/files'
import { StaticError } from '@static/protocol'
import type { S3Access } from '../options.ts'
import type { Parts } from '../ports.ts'
import { DirectoryParts } from './directory.ts'

/**
 * Opens a directory, which is made for this user alone if there is none, or a bucket. Throws `invalid_request` if the
 * bucket refuses; `failed` gets the reason if it does not answer, because it may later.
 */
export async function openParts(store: string | S3Access, failed: (error: unknown) => void): Promise<Parts> {
  const root = resolve(typeof store === 'string' ? store : store.spool)
  makeDirectories(root)
  if (typeof store === 'string') return new DirectoryParts(root)
  // Loaded only if used.
  const { S3Parts } = await import('./s3/parts.ts')
  const parts = new S3Parts(store)
  await parts.check().catch((error: unknown) => {
    if (StaticError.from(error).code === 'invalid_request') throw error
    failed(error)
  })
  return parts
}
