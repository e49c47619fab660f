/** An agent that speaks only the relay protocol: no MLS, ciphertexts are arbitrary bytes. */
import { randomBytes } from 'node:crypto'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { CellJoiner, cutEnvelope, makeCell, REVISION } from '@static/protocol'
import { decodeEnvelope, encodeEnvelope, type WireForm } from '@static/protocol/envelope'
import {
  AckRequestSchema,
  type ClientMessage,
  ClientMessageSchema,
  type Declaration,
  type LeaveNotice,
  type ServerMessage,
  ServerMessageSchema,
} from '@static/protocol/relay'
import {
  type AgentKey,
  type Change,
  declare,
  leaveNotice,
  makeKey,
  NO_TRAFFIC,
  openingOf,
  signSession,
  type Traffic,
} from './key.ts'
import { Refused } from './refusal.ts'

/** A connection to the relay: every call opens a stream of cells. */
export interface Wire {
  readonly form: WireForm
  /** The name that TLS verified. */
  readonly serverName?: string
  open(handlers: WireHandlers): Promise<WireStream>
}

export interface WireHandlers {
  data(bytes: Uint8Array): void
  closed(): void
}

export interface WireStream {
  write(bytes: Uint8Array): void
  end(): void
}

export type ServerBody = ServerMessage['body']
type Cases = Exclude<ClientMessage['body']['case'], undefined>
type RequestInit<Case extends Cases> = Extract<
  Exclude<NonNullable<MessageInitShape<typeof ClientMessageSchema>['body']>, { case?: undefined }>,
  { case: Case }
>['value']
type Answer<Case extends Cases> = Extract<ServerBody, { case: Case }>['value']
type Push<Case extends string> = Extract<ServerBody, { case: Case }>['value']

/** A session with the relay. */
export class Agent {
  readonly key: AgentKey
  readonly form: WireForm
  /** Pushes that were received and not yet taken. */
  readonly pushes: ServerMessage[] = []
  /** The answer to the opening. */
  opened: Answer<'openSession'> | undefined
  challenge: Answer<'getChallenge'> | undefined
  /** Resolves when the stream has ended. */
  readonly ended: Promise<void>
  /** The name that TLS verified. */
  readonly serverName: string | undefined
  /** If set, receives the raw envelopes instead of the handling here. */
  onEnvelope: ((envelope: Uint8Array) => void) | undefined
  /** Set to stop answering pings; `hear` answers those received meanwhile. */
  deaf = false
  /** Total bytes received. */
  receivedBytes = 0
  /** Kinds of the received cells that are complete on their own. */
  readonly lone: string[] = []
  /** What the opening announces. */
  traffic: Traffic = NO_TRAFFIC
  #unheard: Uint8Array[] = []
  readonly #end: () => void
  readonly #joiner = new CellJoiner(8 * 1024 * 1024)
  readonly #waiting = new Map<bigint, Pick<PromiseWithResolvers<ServerBody>, 'resolve' | 'reject'>>()
  #watchers: (() => void)[] = []
  #stream: WireStream | undefined
  #lastRequest = 0n
  #isOver = false

  constructor(key: AgentKey, { form, serverName }: Wire) {
    this.key = key
    this.form = form
    this.serverName = serverName
    const { promise, resolve } = Promise.withResolvers<void>()
    this.ended = promise
    this.#end = resolve
  }

  /** Dials and opens a session; without a JWT as a guest. */
  static async connect(
    wire: Wire,
    options: { key?: AgentKey; jwt?: string; traffic?: Agent['traffic'] } = {},
  ): Promise<Agent> {
    const agent = await Agent.dial(wire, options.key ?? makeKey())
    if (options.traffic) agent.traffic = options.traffic
    await agent.open(options.jwt)
    return agent
  }

  /** Only dials. */
  static async dial(wire: Wire, key: AgentKey): Promise<Agent> {
    const agent = new Agent(key, wire)
    agent.#stream = await wire.open({
      data: (bytes) => agent.#receive(bytes),
      closed: () => agent.#closed(),
    })
    return agent
  }

  get id(): Uint8Array {
    return this.key.id
  }

  /** Opens the session; `changes` alters what is sent after it was signed. */
  async open(jwt = '', changes: object = {}): Promise<Answer<'openSession'>> {
    this.challenge = await this.request('getChallenge', { revision: REVISION })
    // The relay must be the one that TLS verified: otherwise a relay in between could forward another's challenge.
    if (this.serverName !== undefined && this.challenge.relayName !== this.serverName) {
      throw new Error(`The challenge names ${this.challenge.relayName}, not ${this.serverName}.`)
    }
    this.opened = await this.request('openSession', {
      ...this.answer('session', this.challenge, jwt),
      ...changes,
    })
    return this.opened
  }

  /** The answer to a challenge. */
  answer(
    purpose: 'session' | 'unary',
    challenge: Answer<'getChallenge'>,
    jwt: string,
  ): RequestInit<'openSession'> & object {
    return openingOf(this.key, purpose, challenge, this.#opening(jwt))
  }

  /** Renews the JWT of the session. */
  async refresh(jwt: string): Promise<Answer<'refreshSession'>> {
    const challenge = await this.request('getChallenge', { revision: REVISION })
    return this.request('refreshSession', this.refreshing(challenge, jwt))
  }

  /** The answer to a challenge that renews the JWT. */
  refreshing(challenge: Answer<'getChallenge'>, jwt: string): RequestInit<'refreshSession'> & object {
    const opening = this.#opening(jwt)
    const signature = signSession(this.key, 'refresh', challenge, opening)
    return { relayNonce: challenge.nonce, agentNonce: opening.agentNonce, jwt, signature }
  }

  /** Sends a request and waits for its answer. Rejects with `Refused`. */
  async request<Case extends Cases>(name: Case, value: RequestInit<Case>): Promise<Answer<Case>> {
    const body = await this.raw(create(ClientMessageSchema, { body: { case: name, value } as never }))
    if (body.case === 'error') throw new Refused(body.value)
    return body.value as Answer<Case>
  }

  /** Sends a request without waiting for its answer. */
  post(body: ClientMessage['body']): void {
    const message = create(ClientMessageSchema, { requestId: ++this.#lastRequest, body })
    this.write(cutEnvelope(encodeEnvelope(this.form, ClientMessageSchema, message)))
  }

  /** Sends a message under the next request id. */
  raw(message: ClientMessage): Promise<ServerBody> {
    const { promise, resolve, reject } = Promise.withResolvers<ServerBody>()
    if (this.#isOver) reject(new Error('The stream has ended.'))
    message.requestId = ++this.#lastRequest
    this.#waiting.set(message.requestId, { resolve, reject })
    this.write(cutEnvelope(encodeEnvelope(this.form, ClientMessageSchema, message)))
    return promise
  }

  write(bytes: Uint8Array): void {
    this.#stream?.write(bytes)
  }

  /** Acknowledges in a separate cell, with a receipt if there is one. */
  ack(channelId: Uint8Array, index: bigint, receipt: Uint8Array = new Uint8Array()): void {
    const ack = create(AckRequestSchema, { positions: [{ channelId, index, receipt }] })
    this.write(makeCell('ack', encodeEnvelope(this.form, AckRequestSchema, ack)))
  }

  /** Waits for the next push of a kind and removes it from `pushes`. */
  async next<Case extends string>(name: Case): Promise<Push<Case>> {
    for (;;) {
      const at = this.pushes.findIndex(({ body }) => body.case === name)
      if (at >= 0) return this.pushes.splice(at, 1)[0]?.body.value as Push<Case>
      await this.#change(`a push ${name}`)
    }
  }

  /** Waits until a condition on the pushes holds. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await this.#change('what is waited for')
  }

  ping(): void {
    this.write(makeCell('ping'))
  }

  /** Answers pings again. */
  hear(): void {
    this.deaf = false
    for (const payload of this.#unheard.splice(0)) this.write(makeCell('pong', payload))
  }

  close(): void {
    this.#stream?.end()
  }

  // ---- Channels ----

  async createChannel(name: string): Promise<Uint8Array> {
    const channelId = new Uint8Array(randomBytes(16))
    await this.request('createChannel', { name, channelId, welcome: randomBytes(64) })
    await this.request('resume', { channelIds: [channelId] })
    return channelId
  }

  declaration(
    place: { channelId: Uint8Array; slot: bigint; messageId: Uint8Array; commit: Uint8Array },
    change: Change,
  ): Declaration {
    return declare(this.key, place, change)
  }

  commit(
    channelId: Uint8Array,
    slot: bigint,
    change: Change = {},
    options: { welcomes?: boolean; messageId?: Uint8Array; size?: number } = {},
  ): Promise<Answer<'sendCommit'>> {
    const messageId = options.messageId ?? new Uint8Array(randomBytes(16))
    const commit = new Uint8Array(randomBytes(options.size ?? 200))
    const welcomes = (change.adds ?? []).map((agentId) => ({ agentId, welcome: randomBytes(300) }))
    return this.request('sendCommit', {
      channelId,
      slot,
      messageId,
      commit,
      declaration: this.declaration({ channelId, slot, messageId, commit }, change),
      welcomes: options.welcomes === false ? [] : welcomes,
    })
  }

  notice(channelId: Uint8Array, slot: bigint): LeaveNotice {
    return leaveNotice(this.key, channelId, slot)
  }

  send(
    channelId: Uint8Array,
    slot: bigint,
    counter: bigint,
    ciphertext: Uint8Array = randomBytes(64),
    messageId: Uint8Array = randomBytes(16),
  ): Promise<Answer<'sendMessage'>> {
    return this.request('sendMessage', { channelId, slot, counter, ciphertext, messageId })
  }

  #opening(jwt: string): { agentNonce: Uint8Array; jwt: string; traffic: Traffic } {
    return { agentNonce: new Uint8Array(randomBytes(32)), jwt, traffic: this.traffic }
  }

  #receive(bytes: Uint8Array): void {
    this.receivedBytes += bytes.length
    this.#joiner.push(bytes, ({ type, payload }) => {
      if (type === 'ping' && !this.deaf) this.write(makeCell('pong', payload))
      if (type === 'ping' && this.deaf) this.#unheard.push(payload.slice())
      if (type !== 'envelope') {
        this.lone.push(type)
        return
      }
      if (this.onEnvelope) {
        this.onEnvelope(payload)
        return
      }
      const message = decodeEnvelope(this.form, ServerMessageSchema, payload.slice(), payload.length)
      const waiting = this.#waiting.get(message.requestId)
      this.#waiting.delete(message.requestId)
      if (waiting) waiting.resolve(message.body)
      else this.pushes.push(message)
    })
    this.#wake()
  }

  /** Resolves when something has arrived, or the end. */
  async #change(wanted: string): Promise<void> {
    if (this.#isOver) throw new Error(`The stream has ended without ${wanted}.`)
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#watchers.push(resolve)
    await promise
  }

  #closed(): void {
    this.#isOver = true
    for (const { reject } of this.#waiting.values()) reject(new Error('The stream has ended.'))
    this.#waiting.clear()
    this.#end()
    this.#wake()
  }

  #wake(): void {
    const watchers = this.#watchers
    this.#watchers = []
    for (const wake of watchers) wake()
  }
}
