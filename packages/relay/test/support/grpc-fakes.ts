/** A gRPC port with handlers that tests steer: everything behind our own interfaces, nothing of the relay's rules. */
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { CELL_BYTES } from '@static/protocol'
import { certificates } from '@static/testkit/certificates'
import { type ClientMessage, type ServerMessage, ServerMessageSchema } from '@static/protocol/relay'
import type { CallHandler, Health, Peer, PushSink, StreamHandler, StreamId } from '../../src/ports.ts'
import { type GrpcOptions, type GrpcTransport, startGrpcTransport } from '../../src/transport/grpc/transport.ts'
import { connectGrpc, type GrpcClient } from '@static/testkit/agent/grpc-client'
import { Gauge } from './grpc-gauge.ts'

/** A session token that is none. */
export const STRANGER = 'nobody'

/** Sends every cell back, or does what the test says. */
export class FakeStreams implements StreamHandler {
  transport: GrpcTransport | undefined
  accepting = true
  echo = true
  readonly peers: Map<StreamId, Peer> = new Map()
  readonly open: Gauge = new Gauge()
  readonly receivedBytes: Gauge = new Gauge()
  /** How many cells each call brought. */
  readonly batches: number[] = []
  readonly #rests = new Map<StreamId, Buffer>()
  #next = 1

  opened(peer: Peer): StreamId | undefined {
    if (!this.accepting) return undefined
    const id = this.#next++
    this.peers.set(id, peer)
    this.open.add(1)
    return id
  }

  received(stream: StreamId, chunk: Uint8Array): void {
    this.batches.push(chunk.length)
    this.receivedBytes.add(chunk.length)
    if (!this.echo) return
    // A chunk may end within a cell.
    const bytes = Buffer.concat([this.#rests.get(stream) ?? Buffer.alloc(0), chunk])
    const whole = bytes.length - (bytes.length % CELL_BYTES)
    this.#rests.set(stream, bytes.subarray(whole))
    if (whole > 0) this.transport?.write([stream], bytes.subarray(0, whole))
  }

  closed(stream: StreamId): void {
    this.peers.delete(stream)
    this.open.add(-1)
  }
}

/** An answer's body. */
export type AnswerBody = NonNullable<MessageInitShape<typeof ServerMessageSchema>['body']>

/** A subscription that the test pushes into. */
export interface FakeSubscription {
  readonly message: ClientMessage
  readonly sink: PushSink
  /** How often the transport said that there is room, and that it is over. */
  readonly rooms: Gauge
  readonly closes: Gauge
}

/** Answers calls as the test says. */
export class FakeCalls implements CallHandler {
  answer: (message: ClientMessage, peer: Peer) => AnswerBody | Promise<AnswerBody> = () => ({
    case: 'error',
    value: { code: 'not_found', message: 'Nothing is here.' },
  })
  token: string | undefined
  /** When it is anyone's turn. */
  nextTurn: Promise<void> = Promise.resolve()
  readonly seen: ClientMessage[] = []
  readonly called: Gauge = new Gauge()
  readonly peers: Peer[] = []
  readonly subscriptions: FakeSubscription[] = []
  readonly subscribed: Gauge = new Gauge()

  knows(token: string): boolean {
    return token !== '' && token !== STRANGER
  }

  async turn(): Promise<void> {
    await this.nextTurn
  }

  async call(peer: Peer, message: ClientMessage): Promise<ServerMessage> {
    this.seen.push(message)
    this.called.add(1)
    this.peers.push(peer)
    const body = await this.answer(message, peer)
    return create(ServerMessageSchema, { requestId: 1n, sessionToken: this.token ?? '', body })
  }

  subscribe(_peer: Peer, message: ClientMessage, sink: PushSink): { room(): void; close(): void } {
    const subscription = { message, sink, rooms: new Gauge(), closes: new Gauge() }
    this.subscriptions.push(subscription)
    this.subscribed.add(1)
    return { room: () => subscription.rooms.add(1), close: () => subscription.closes.add(1) }
  }
}

/** A port under test. */
export interface GrpcBench extends AsyncDisposable {
  readonly transport: GrpcTransport
  readonly streams: FakeStreams
  readonly calls: FakeCalls
  readonly health: { -readonly [Key in keyof Health]: Health[Key] }
  readonly ca: string
  /** Why connections were cut, and what failed inside. */
  readonly cuts: string[]
  readonly failures: unknown[]
  connect(host?: string): Promise<GrpcClient>
}

/** Opens a port on localhost. */
export async function startGrpcBench(options: Partial<GrpcOptions> = {}): Promise<GrpcBench> {
  const { authority, certificate } = await certificates()
  const streams = new FakeStreams()
  const calls = new FakeCalls()
  const health: { -readonly [Key in keyof Health]: Health[Key] } = { ready: true, name: 'localhost', version: '1.2.3' }
  const cuts: string[] = []
  const failures: unknown[] = []
  const clients: GrpcClient[] = []
  const transport = await startGrpcTransport(
    {
      host: 'localhost',
      port: 0,
      certificate,
      origins: [],
      health: () => health,
      log: {
        cut: (_address, reason) => cuts.push(reason),
        full: (_address, { limit }) => cuts.push(limit),
        failed: (error) => failures.push(error),
      },
      ...options,
    },
    streams,
    calls,
  )
  streams.transport = transport
  return {
    transport,
    streams,
    calls,
    health,
    ca: authority.cert,
    cuts,
    failures,
    async connect(host = '127.0.0.1') {
      const client = await connectGrpc({ host, port: transport.port, ca: authority.cert })
      clients.push(client)
      return client
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((client) => client.close()))
      await transport.stop()
    },
  }
}
