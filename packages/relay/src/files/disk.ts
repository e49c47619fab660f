/** What both kinds of stores do on a disk: write a body of known length, and look at the free space. */
import { type FileHandle, statfs } from 'node:fs/promises'
import { isErrno } from '@static/node/files'
import { StaticError } from '@static/protocol'

/** Bytes written at once: fewer trips to the thread pool than one for each packet. */
const WRITTEN_BYTES = 262_144
/** With a smaller share of the disk free, nothing more is stored. */
const FREE_SHARE = 0.1

export async function isDiskNearlyFull(path: string): Promise<boolean> {
  const { bavail, blocks } = await statfs(path)
  return bavail < FREE_SHARE * blocks
}

/** Writes a body, which must have exactly so many bytes. */
export async function writeBody(file: FileHandle, body: AsyncIterable<Uint8Array>, bytes: number): Promise<void> {
  let chunks: Uint8Array[] = []
  let [held, total] = [0, 0]
  const flush = async (): Promise<void> => {
    for (const chunk of chunks) await writeAll(file, chunk)
    chunks = []
    held = 0
  }
  for await (const chunk of body) {
    total += chunk.length
    if (total > bytes) break
    chunks.push(chunk)
    held += chunk.length
    if (held >= WRITTEN_BYTES) await flush()
  }
  if (total !== bytes) {
    throw StaticError.of('invalid_request', `The part must have ${bytes} bytes, not ${total > bytes ? 'more' : total}.`)
  }
  await flush()
}

/** An error of the disk as agents get it, if it is full. */
export function fullOr(error: unknown): unknown {
  return isErrno(error, 'ENOSPC') || isErrno(error, 'EDQUOT')
    ? StaticError.of('files_unavailable', 'The disk of the relay is full.', { cause: error })
    : error
}

async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += (await file.write(bytes, at)).bytesWritten
}
