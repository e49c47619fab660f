/** The local socket of an agent, in its directory, which only its user can enter. */
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { StaticError } from '@static/protocol'

const NAME = 'agent.sock'
/** What the systems allow for the path of a socket, the least of them. */
const LONGEST_PATH = 103

/** A path that can be bound and connected to, as long as it is not disposed of. */
export interface SocketPath extends Disposable {
  readonly path: string
}

/** The file itself. */
export function socketFile(directory: string): string {
  return join(directory, NAME)
}

/** The path for `bind` and `connect`: in a directory with a long name, by way of a descriptor of the directory. */
export function socketPath(directory: string): SocketPath {
  const path = socketFile(directory)
  if (Buffer.byteLength(path) <= LONGEST_PATH) return { path, [Symbol.dispose]: () => {} }
  if (process.platform !== 'linux') {
    throw StaticError.of('invalid_request', `The path ${path} is too long for a socket: choose a shorter --data-dir.`)
  }
  const descriptor = openSync(directory, 'r')
  return { path: `/proc/self/fd/${descriptor}/${NAME}`, [Symbol.dispose]: () => closeSync(descriptor) }
}
