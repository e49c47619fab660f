/** The local socket of an agent, in its directory, which only its user can access. */
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { StaticError } from '@static/protocol'

const NAME = 'agent.sock'
/** Longest socket path in bytes that all supported systems allow. */
const LONGEST_PATH = 103

/** A path for `bind` and `connect`, valid until disposed. */
export interface SocketPath extends Disposable {
  readonly path: string
}

/** The socket file. */
export function socketFile(directory: string): string {
  return join(directory, NAME)
}

/** The path for `bind` and `connect`; if the real path is too long, one through a descriptor of the directory. */
export function socketPath(directory: string): SocketPath {
  const path = socketFile(directory)
  if (Buffer.byteLength(path) <= LONGEST_PATH) return { path, [Symbol.dispose]: () => {} }
  if (process.platform !== 'linux') {
    throw StaticError.of(
      'invalid_request',
      `The socket path ${path} is longer than ${LONGEST_PATH} bytes. Choose a shorter --data-dir.`,
    )
  }
  const descriptor = openSync(directory, 'r')
  return { path: `/proc/self/fd/${descriptor}/${NAME}`, [Symbol.dispose]: () => closeSync(descriptor) }
}
