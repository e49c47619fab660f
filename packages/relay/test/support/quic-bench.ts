/** A QUIC transport with a handler that writes down what happens, and peers for it. */
import { connectQuic, type QuicClientStream, type QuicConnection, type QuicTarget } from '@static/quic'
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Authority } from '@static/cli/authority'
import type { StaticError } from '@static/protocol'
import { certificates, type Pair } from '@static/testkit/certificates'
import { type ClientAuthority, makeClientAuthority } from '@static/testkit/certificates/client'
import type { Peer, StreamHandler, StreamId } from '../../src/ports.ts'
import { type QuicOptions, type QuicTransport, startQuicTransport } from '../../src/transport/quic/transport.ts'

/** What all tests of a process share. */
export interface QuicCertificates {
  readonly authority: Authority
  readonly server: Pair
  readonly proxies: ClientAuthority
}

let shared: Promise<QuicCertificates> | undefined

/** One authority for all tests of a process. */
export function quicCertificates(): Promise<QuicCertificates> {
  shared ??= (async () => {
    const { authority } = await certificates()
    return { authority, server: await authority.issue(['localhost']), proxies: makeClientAuthority() }
  })()
  return shared
}

/** Lets a test wait until something is so, looking again whenever something has changed. */
export class Watch {
  #waiting: (() => void)[] = []

  changed(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const look of waiting) look()
  }

  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }
}

/** A stream as the relay's side has seen it. */
export interface Seen {
  readonly id: StreamId
  readonly peer: Peer
  readonly chunks: Uint8Array[]
  closed: boolean
}

/** A transport under test. */
export interface QuicBench {
  readonly transport: QuicTransport
  readonly streams: Seen[]
  readonly log: string[]
  readonly watch: Watch
  /** Where agents dial, at the first port unless told. */
  target(more?: Partial<QuicTarget>): QuicTarget
}

/** How the relay's side behaves. */
export interface QuicBenchOptions extends Partial<QuicOptions> {
  /** Told each chunk. */
  readonly onChunk?: (transport: QuicTransport, stream: StreamId, chunk: Uint8Array) => void
  /** Told each new stream; false turns it away. */
  readonly onOpen?: (transport: QuicTransport, stream: StreamId) => boolean
}

/** Sends back what it gets. */
export const echo: Pick<QuicBenchOptions, 'onChunk'> = {
  onChunk: (transport, stream, chunk) => transport.write([stream], chunk),
}

/** Starts a transport that is stopped after the test. */
export async function startQuicBench(t: TestContext, options: QuicBenchOptions = {}): Promise<QuicBench> {
  const { authority, server, proxies } = await quicCertificates()
  const streams: Seen[] = []
  const log: string[] = []
  const watch = new Watch()
  const handler: StreamHandler = {
    opened: (peer) => {
      const id = 1000 + streams.length
      streams.push({ id, peer, chunks: [], closed: false })
      watch.changed()
      return options.onOpen?.(transport, id) === false ? undefined : id
    },
    received: (id, chunk) => {
      streams[id - 1000]?.chunks.push(chunk)
      options.onChunk?.(transport, id, chunk)
      watch.changed()
    },
    closed: (id) => {
      const seen = streams[id - 1000]
      if (seen === undefined || seen.closed) throw new Error(`closed was called for stream ${id} without reason`)
      seen.closed = true
      watch.changed()
    },
  }
  const transport = await startQuicTransport(
    {
      host: 'localhost',
      port: 0,
      endpoints: 1,
      certificate: server,
      proxyCa: proxies.cert,
      log: (message, { detail }) => {
        log.push(`${message} ${detail}`)
        watch.changed()
      },
      ...options,
    },
    handler,
  )
  t.after(() => transport.stop())
  const target = (more: Partial<QuicTarget> = {}): QuicTarget => ({
    host: '127.0.0.1',
    port: transport.ports[0] ?? 0,
    serverName: 'localhost',
    ca: authority.cert,
    connectTimeoutMs: 60_000,
    ...more,
  })
  return { transport, streams, log, watch, target }
}

/** A client's stream that keeps what arrives. */
export interface Dialled {
  readonly stream: QuicClientStream
  readonly watch: Watch
  readonly received: () => Buffer
  readonly bytes: () => number
  /** The last word of the stream. */
  readonly closed: Promise<StaticError | undefined>
}

/** A client connection that is closed after the test. */
export async function dial(t: TestContext, target: QuicTarget): Promise<QuicConnection> {
  const connection = await connectQuic(target)
  t.after(() => connection.close())
  return connection
}

/** Opens a stream on a connection. */
export function open(connection: QuicConnection, onData?: (chunk: Uint8Array) => void): Dialled {
  const chunks: Uint8Array[] = []
  let bytes = 0
  const watch = new Watch()
  const { promise, resolve } = Promise.withResolvers<StaticError | undefined>()
  const stream = connection.openStream({
    data: (chunk) => {
      chunks.push(chunk)
      bytes += chunk.length
      onData?.(chunk)
      watch.changed()
    },
    closed: (reason) => {
      resolve(reason)
      watch.changed()
    },
  })
  return { stream, watch, received: () => Buffer.concat(chunks), bytes: () => bytes, closed: promise }
}

/** What a peer in a process of its own does, see `quic-peer.ts`. */
export interface PeerOrder {
  readonly target: QuicTarget
  /** `hold`: says one byte and stays. `flood`: sends on every stream until all of them are closed. */
  readonly what: 'hold' | 'flood'
  readonly streams: number
  readonly bytesEach: number
}

/** Where the peer's program is. */
export const PEER: string = fileURLToPath(new URL('./quic-peer.ts', import.meta.url))

/** Starts a peer in a process of its own; it is killed after the test. */
export function startPeer(t: TestContext, order: PeerOrder): ChildProcess {
  // A process that is killed does not tidy up.
  const temporary = mkdtempSync(join(tmpdir(), 'static-relay-peer-'))
  const child = fork(PEER, [JSON.stringify(order)], { env: { ...process.env, TMPDIR: temporary } })
  t.after(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    rmSync(temporary, { recursive: true, force: true })
  })
  return child
}
