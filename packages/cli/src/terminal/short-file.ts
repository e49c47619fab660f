/** Files that the user names, which must be short. */
import { open } from 'node:fs/promises'
import { StaticError } from '@static/protocol'

/**
 * Reads a file of at most so many bytes.
 *
 * @throws {StaticError} `invalid_request` if it cannot be read, `too_large`
 */
export async function readShort(path: string, most: number): Promise<Buffer> {
  const bytes = Buffer.alloc(most + 1)
  let length = 0
  try {
    await using file = await open(path)
    for (;;) {
      const { bytesRead } = await file.read(bytes, length)
      length += bytesRead
      if (bytesRead === 0 || length > most) break
    }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw StaticError.of('invalid_request', `File ${path} cannot be read: ${reason}.`, { cause })
  }
  if (length > most) throw StaticError.of('too_large', `File ${path} is longer than ${most} bytes, the limit.`)
  return bytes.subarray(0, length)
}
