/** The core alone: a test gives the inputs and decides when, and whether, what it asked for comes back. */
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { ALL_TRAFFIC, REVISION } from '@static/protocol'
import { type ClientMessage, ClientMessageSchema, type ServerMessage } from '@static/protocol/relay'
import type { Effect, Input } from '../../src/core/io.ts'
import { Relay } from '../../src/core/relay.ts'
import { makeCrypto } from '../../src/crypto.ts'
import type { Peer, Store, StoreEvent, StreamId } from '../../src/ports.ts'
import { type Settings, settingsFrom } from '../../src/settings.ts'
import { openMemoryStore } from '@static/testkit/store/relay-memory'
import { Agent, type AgentKey, makeKey } from '@static/testkit/agent'

type Body = NonNullable<MessageInitShape<typeof ClientMessageSchema>['body']>
type StoreEffect = Extract<Effect, { type: 'store' }>

export const PEER: Peer = { transport: 'quic', form: 'cbor', address: '192.0.2.1', proxy: false }

/** A core, a store, and everything between them in a test's hands. */
export class PureRelay {
  readonly relay: Relay
  readonly store: Store
  readonly settings: Settings
  /** What the core asked for and has not got. */
  asked: Effect[] = []
  readonly sent: Map<StreamId, ServerMessage[]> = new Map()
  readonly ended: Set<StreamId> = new Set()
  /** Held back from the core while it is an array. */
  events: StoreEvent[] | undefined
  now: number = Date.UTC(2027, 0, 15, 12)
  #lastRequest = 0n

  constructor(relay: Relay, store: Store, settings: Settings) {
    this.relay = relay
    this.store = store
    this.settings = settings
  }

  static async make(overrides: object = {}): Promise<PureRelay> {
    const settings = settingsFrom(overrides)
    const made: { pure?: PureRelay } = {}
    const store = await openMemoryStore({ retention: settings.retention }, (event) => {
      if (made.pure?.events) made.pure.events.push(event)
      else made.pure?.handle({ type: 'event', event })
    })
    const identity = { name: 'relay.test', guests: true, traffic: ALL_TRAFFIC, grpcPort: () => 5001 }
    const relay = new Relay({ identity, deployment: store.deployment, settings, crypto: makeCrypto() })
    made.pure = new PureRelay(relay, store, settings)
    return made.pure
  }

  handle(input: Input): void {
    for (const effect of this.relay.handle(input, this.now, this.now)) {
      if (effect.type === 'send') {
        for (const stream of effect.streams) this.sent.set(stream, [...(this.sent.get(stream) ?? []), effect.message])
      } else if (effect.type === 'end') {
        this.ended.add(effect.stream)
      } else if (effect.type !== 'limit' && effect.type !== 'shape' && effect.type !== 'began') {
        this.asked.push(effect)
      }
    }
  }

  open(stream: StreamId, peer: Peer = PEER): void {
    this.handle({ type: 'opened', stream, peer, kind: 'session' })
  }

  receive(stream: StreamId, body: Body): void {
    const message: ClientMessage = create(ClientMessageSchema, { requestId: ++this.#lastRequest, body: body as never })
    this.handle({ type: 'received', stream, message, bytes: 100 })
  }

  /** What a stream was sent last, of a kind. */
  last<Case extends string>(stream: StreamId, name: Case): Extract<ServerMessage['body'], { case: Case }>['value'] {
    const found = this.cases(stream).lastIndexOf(name)
    const body = this.sent.get(stream)?.[found]?.body
    if (!body) throw new Error(`${name} was not sent.`)
    return body.value as never
  }

  cases(stream: StreamId): (string | undefined)[] {
    return (this.sent.get(stream) ?? []).map(({ body }) => body.case)
  }

  /** Does the first thing asked for of the store; the result waits for `done`. */
  async execute(name: StoreEffect['name']): Promise<() => void> {
    const at = this.asked.findIndex((effect) => effect.type === 'store' && effect.name === name)
    const [effect] = this.asked.splice(at, 1) as StoreEffect[]
    if (!effect || at < 0) throw new Error(`The store was not asked for ${name}.`)
    const value = await this.store.run(effect.name, effect.request)
    return () => this.handle({ type: 'done', id: effect.id, outcome: { ok: true, value } })
  }

  /** Does everything asked for of the store. */
  async settle(): Promise<void> {
    for (let next = this.#first(); next; next = this.#first()) (await this.execute(next))()
  }

  /** A guest's session on a stream; with `settled: false` the store has not been asked yet. */
  async session(stream: StreamId, key: AgentKey = makeKey(), settled = true): Promise<AgentKey> {
    this.open(stream)
    this.answer(stream, key)
    if (settled) await this.settle()
    return key
  }

  /** Asks for a challenge and answers it. */
  answer(stream: StreamId, key: AgentKey): void {
    this.receive(stream, { case: 'getChallenge', value: { revision: REVISION } })
    const wire = { form: 'cbor' as const, open: () => Promise.reject(new Error('There is no wire.')) }
    const value = new Agent(key, wire).answer('session', this.last(stream, 'getChallenge'), '')
    this.receive(stream, { case: 'openSession', value })
  }

  #first(): StoreEffect['name'] | undefined {
    return this.asked.find((effect) => effect.type === 'store')?.name
  }
}
