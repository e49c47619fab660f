/** A local socket in the directory of an agent or a server, which only its user can access. */
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { StaticError } from '@static/protocol'

/** Longest socket path in bytes that all supported systems allow. */
const LONGEST_PATH = 103

/** A path for `bind` and `connect`, valid until disposed. */
export interface SocketPath extends Disposable {
  readonly path: string
}

/** The socket files of an agent, and of a server's relay. */
type SocketName = 'agent.sock' | 'relay.sock'

export function socketFile(directory: string, name: SocketName = 'agent.sock'): string {
  return join(directory, name)
}

/** The path for `bind` and `connect`; if the real path is too long, one through a descriptor of the directory. */
export function socketPath(directory: string, name: SocketName = 'agent.sock'): SocketPath {
  const path = socketFile(directory, name)
  if (Buffer.byteLength(path) <= LONGEST_PATH) return { path, [Symbol.dispose]: () => {} }
  if (process.platform !== 'linux') {
    throw StaticError.of(
      'invalid_request',
      `The socket path ${path} is longer than ${LONGEST_PATH} bytes. Choose a shorter --data-dir.`,
    )
  }
  const descriptor = openSync(directory, 'r')
  return { path: `/proc/self/fd/${descriptor}/${name}`, [Symbol.dispose]: () => closeSync(descriptor) }
}
