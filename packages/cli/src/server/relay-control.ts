/**
 * The local socket on which a running relay makes a copy of its database, and says what accounts keep in it. The relay
 * holds the file exclusively, so no other process can read it. Only the process that holds the lock of `relay.sqlite` touches the socket file, so one
 * left by a killed process can be replaced. The copy is made next to the database, because a hardened service cannot
 * write anywhere else; the client moves it from there.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, rmSync, statfsSync, statSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { ERRORS, type ErrorCode, StaticError } from '@static/protocol'
import type { AccountRoom } from '@static/relay'
import { encodeFrame, FrameReader } from '../agent/socket-frame.ts'
import { socketFile, socketPath } from '../agent/socket-path.ts'
import { note } from '../terminal/output.ts'

const SOCKET = 'relay.sock'
const OTHERS = 0o177
const REQUEST_MS = 10_000
/** A copy that no client took, with its journal. */
const LEFTOVER = /^\.relay\.sqlite\.[0-9a-f]{16}\.tmp(-journal)?$/
/** The space that a copy leaves free for the relay. */
const SPARE_BYTES = 64 * 1024 * 1024

/** What a running relay does for its operator. */
interface ControlledRelay {
  backup(path: string): Promise<void>
  roomOf(account: string): Promise<AccountRoom>
}

/** The only document of a connection. */
type ControlRequest = { readonly ask: 'copy' } | { readonly ask: 'rooms'; readonly accounts: readonly string[] }

interface ControlAnswer {
  /** The copy, in the data directory; removed when the connection ends. */
  readonly file?: string
  /** One for each account. */
  readonly rooms?: readonly AccountRoom[]
  readonly error?: { readonly code: string; readonly message: string }
}

/**
 * Serves requests until it is closed. On a file system without sockets, a relay runs without this and is
 * backed up while it is stopped.
 */
export async function serveRelayControl(dataDir: string, relay: ControlledRelay): Promise<{ close(): Promise<void> }> {
  try {
    return await serve(dataDir, relay)
  } catch (error) {
    const { message } = error as Error
    note(`cannot open ${socketFile(dataDir, SOCKET)} (${message}): stop the server before \`static admin backup\`.`)
    return { close: () => Promise.resolve() }
  }
}

async function serve(dataDir: string, relay: ControlledRelay): Promise<{ close(): Promise<void> }> {
  for (const name of readdirSync(dataDir)) if (LEFTOVER.test(name)) rmSync(join(dataDir, name))
  rmSync(socketFile(dataDir, SOCKET), { force: true })
  const sockets = new Set<Socket>()
  let isCopying = false
  const copy = async (): Promise<string> => {
    if (isCopying) throw StaticError.of('unavailable', 'Another backup is running. Wait until it has finished.')
    isCopying = true
    const name = `.relay.sqlite.${randomBytes(8).toString('hex')}.tmp`
    try {
      checkRoom(dataDir)
      await relay.backup(join(dataDir, name))
      return name
    } catch (error) {
      // On a full disk, the partial copy would keep it full.
      for (const left of [name, `${name}-journal`]) rmSync(join(dataDir, left), { force: true })
      throw error
    } finally {
      isCopying = false
    }
  }
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => sockets.delete(socket))
    const answer = async (): Promise<void> => {
      const request = await requestOf(socket)
      if (request.ask === 'rooms') {
        const rooms: AccountRoom[] = []
        // One after the other, because the relay serves agents meanwhile.
        for (const account of request.accounts) rooms.push(await relay.roomOf(account))
        socket.end(encodeFrame({ rooms } satisfies ControlAnswer))
        return
      }
      const file = await copy()
      const forget = (): void => rmSync(join(dataDir, file), { force: true })
      if (socket.destroyed) return forget()
      socket.once('close', forget)
      socket.write(encodeFrame({ file } satisfies ControlAnswer))
    }
    answer().catch((error: unknown) => {
      const { code, message } = StaticError.from(error)
      socket.end(encodeFrame({ error: { code, message } } satisfies ControlAnswer))
    })
  })
  const path = socketPath(dataDir, SOCKET)
  const listening = once(server, 'listening')
  // The umask sets the mode of the socket file, which `listen` creates before it returns.
  const mask = process.umask(OTHERS)
  try {
    server.listen(path.path)
  } finally {
    process.umask(mask)
  }
  await listening
  return {
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
      path[Symbol.dispose]()
    },
  }
}

/** The request on a connection. Its sender runs as the user of the relay. */
async function requestOf(socket: Socket): Promise<ControlRequest> {
  const reader = new FrameReader()
  const { promise, resolve, reject } = Promise.withResolvers<ControlRequest>()
  socket.setTimeout(REQUEST_MS, () => socket.destroy())
  socket.once('close', () => reject(StaticError.of('closed', 'The connection ended without a request.')))
  socket.on('data', (chunk: Buffer) => {
    try {
      const [request] = reader.push(chunk)
      if (request === undefined) return
      socket.setTimeout(0)
      resolve(request as ControlRequest)
    } catch (error) {
      reject(StaticError.from(error))
    }
  })
  return await promise
}

/**
 * Makes the running relay copy its database and passes the copy to `take`; false if no relay runs here.
 *
 * Throws the error that the relay reports, or `unavailable` if it stops meanwhile.
 */
export async function takeRelayCopy(dataDir: string, take: (path: string) => void): Promise<boolean> {
  const taken = await askRelay(dataDir, { ask: 'copy' }, ({ file }) => {
    if (file === undefined || !LEFTOVER.test(file)) return undefined
    take(join(dataDir, file))
    return true
  })
  return taken === true
}

/** What accounts keep at the relay that runs here, in their order; undefined if none runs. Throws as `takeRelayCopy`. */
export function roomsOf(dataDir: string, accounts: readonly string[]): Promise<readonly AccountRoom[] | undefined> {
  return askRelay(dataDir, { ask: 'rooms', accounts }, ({ rooms }) => rooms)
}

/** Sends a request and passes the answer to `use` while the connection is open; undefined if no relay runs here. */
async function askRelay<Result>(
  dataDir: string,
  request: ControlRequest,
  use: (answer: ControlAnswer) => Result | undefined,
): Promise<Result | undefined> {
  using path = socketPath(dataDir, SOCKET)
  const socket = connect(path.path)
  try {
    await once(socket, 'connect')
  } catch {
    // No socket, or one left by a killed process.
    return undefined
  }
  try {
    socket.write(encodeFrame(request))
    const reader = new FrameReader()
    for await (const chunk of socket) {
      for (const answer of reader.push(chunk as Buffer)) {
        const { error } = answer as ControlAnswer
        if (error) throw StaticError.of(error.code in ERRORS ? (error.code as ErrorCode) : 'unavailable', error.message)
        const result = use(answer as ControlAnswer)
        if (result !== undefined) return result
      }
    }
    throw StaticError.of('unavailable', 'The relay stopped before it had answered. Retry.')
  } finally {
    socket.destroy()
  }
}

/** A copy that filled the disk would stop the relay. */
function checkRoom(dataDir: string): void {
  const sizes = ['relay.sqlite', 'relay.sqlite-wal'].map(
    (name) => statSync(join(dataDir, name), { throwIfNoEntry: false })?.size ?? 0,
  )
  const needed = sizes.reduce((sum, size) => sum + size, SPARE_BYTES)
  const { bavail, bsize } = statfsSync(dataDir)
  if (bavail * bsize >= needed) return
  throw StaticError.of(
    'unavailable',
    `The disk of ${dataDir} has ${bavail * bsize} bytes free, but the copy needs ${needed}. Free some space.`,
  )
}
