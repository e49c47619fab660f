/** An agent that calls, with a session token, instead of holding a session stream. */
import { create } from '@bufbuild/protobuf'
import { REVISION } from '@static/protocol'
import { type ClientMessage, ClientMessageSchema, type ServerMessage } from '@static/protocol/relay'
import type { Peer, Subscription } from '../../src/ports.ts'
import { Agent, type AgentKey, makeKey, Refused, type ServerBody } from '@static/testkit/agent'
import type { MemoryRelay } from './memory-relay.ts'

type Cases = Exclude<ClientMessage['body']['case'], undefined>
type Answer<Case extends Cases> = Extract<ServerBody, { case: Case }>['value']

/** What a subscription brought. */
export interface Pushes {
  readonly messages: ServerMessage[]
  /** What `write` says: false stands for a receiver that is full. */
  room: boolean
  ended: boolean
  readonly subscription: Subscription
}

/** One that calls. */
export class UnaryAgent {
  readonly key: AgentKey
  readonly #world: MemoryRelay
  readonly #signer: Agent
  readonly #peer: Peer
  /** The last one that was given. */
  token = ''

  constructor(world: MemoryRelay, key: AgentKey = makeKey(), address = '192.0.2.2') {
    this.#world = world
    this.key = key
    this.#signer = new Agent(key, world.transport.wire('protobuf'))
    this.#peer = { transport: 'grpc', form: 'protobuf', address, proxy: false }
  }

  /** Gets a token. */
  async open(jwt = '', changes: object = {}): Promise<Answer<'openSession'>> {
    const challenge = await this.request('getChallenge', { revision: REVISION })
    return this.answer(challenge, jwt, changes)
  }

  async answer(challenge: Answer<'getChallenge'>, jwt = '', changes: object = {}): Promise<Answer<'openSession'>> {
    const opened = await this.request('openSession', { ...this.#signer.answer('unary', challenge, jwt), ...changes })
    this.token = opened.sessionToken
    return opened
  }

  async refresh(jwt: string): Promise<Answer<'refreshSession'>> {
    const challenge = await this.request('getChallenge', { revision: REVISION })
    const refreshed = await this.request('refreshSession', this.#signer.refreshing(challenge, jwt))
    this.token = refreshed.sessionToken
    return refreshed
  }

  /** One call. Rejects with `Refused`. Takes a new token when there is one. */
  async request<Case extends Cases>(
    name: Case,
    value: object,
    sessionToken: string = this.token,
  ): Promise<Answer<Case>> {
    const message = create(ClientMessageSchema, { requestId: 1n, sessionToken, body: { case: name, value } as never })
    const answer = await this.#world.driver.call(this.#peer, message)
    if (answer.sessionToken !== '') this.token = answer.sessionToken
    if (answer.body.case === 'error') throw new Refused(answer.body.value)
    return answer.body.value as Answer<Case>
  }

  subscribe(channelIds: Uint8Array[] = [], sessionToken: string = this.token): Pushes {
    const message = create(ClientMessageSchema, {
      requestId: 1n,
      sessionToken,
      body: { case: 'resume', value: { channelIds } },
    })
    const pushes = { messages: [] as ServerMessage[], room: true, ended: false }
    const subscription = this.#world.driver.subscribe(this.#peer, message, {
      write: (push) => {
        pushes.messages.push(push)
        return pushes.room
      },
      end: () => {
        pushes.ended = true
      },
    })
    return Object.assign(pushes, { subscription })
  }
}
