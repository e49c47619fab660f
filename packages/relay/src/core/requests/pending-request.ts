/** Requests that have not been answered yet. */
import type { ClientMessage } from '@static/protocol/relay'
import type { Time } from '../../ports.ts'
import type { Effects } from '../effects.ts'
import { type Body, type RefusalDetails, serverMessage, wireRefusal } from '../server-messages.ts'
import type { Caller } from '../sessions/session-token.ts'
import type { Stream } from '../sessions/stream.ts'

/** The body of a request, for its handler. */
export type RequestBody = Exclude<ClientMessage['body'], { case: undefined }>

/** A request waiting for its response. It gets exactly one. */
export class PendingRequest {
  readonly stream: Stream
  readonly caller: Caller
  readonly #effects: Effects
  readonly #id: bigint
  readonly #since: Time
  /** A session token that expires later than the one in the request. */
  readonly #token: string | undefined
  readonly #settled: () => void

  constructor(
    effects: Effects,
    stream: Stream,
    caller: Caller,
    id: bigint,
    token: string | undefined,
    settled: () => void,
  ) {
    this.stream = stream
    this.caller = caller
    this.#effects = effects
    this.#id = id
    this.#since = effects.monotonic
    this.#token = token
    this.#settled = settled
  }

  answer(body: Body): void {
    const tookMs = this.#effects.monotonic - this.#since
    this.#effects.send([this.stream.id], serverMessage(body, this.#id, this.#token), tookMs)
    this.#settled()
  }

  refuse(refusal: RefusalDetails): void {
    this.answer({ case: 'error', value: wireRefusal(refusal) })
  }

  /** Drops the request: its stream has ended, so nothing waits for the response. */
  abandon(): void {
    this.#settled()
  }
}
