/** A digest of a file. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'

/** The size of a file, and its SHA-256 in hexadecimal. */
export interface FileDigest {
  readonly bytes: number
  readonly sha256: string
}

/** Reads a file once. */
export async function digestFile(path: string): Promise<FileDigest> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of createReadStream(path)) {
    bytes += (chunk as Buffer).length
    hash.update(chunk as Buffer)
  }
  return { bytes, sha256: hash.digest('hex') }
}
