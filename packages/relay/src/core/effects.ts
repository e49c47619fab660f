/** The effects of one `handle` call, and the continuations of asynchronous ones. */
import type { Lease, TokenClaims, TrafficProfileName } from '@static/protocol'
import type { ServerMessage } from '@static/protocol/relay'
import {
  type Account,
  type BlockedAnswer,
  type ChannelId,
  type News,
  OutcomeUnknown,
  type PartAnswer,
  type StoreOperation,
  type StoreRequest,
  type StoreResult,
  type StreamId,
  type Time,
  type Topic,
} from '../ports.ts'
import type { Effect, Outcome, SessionNotice, Settlement, StoreEffect } from './io.ts'
import type { Excess } from './sessions/limits.ts'

type Then<Value> = (outcome: Outcome<Value>) => void

/** Collects effects and keeps the continuations of those that return a result. */
export class Effects {
  /** The time of the current input, by the wall clock. */
  now: Time = 0
  /** The same moment by a monotonic clock: for deadlines that must not move when the wall clock is set. */
  monotonic: Time = 0
  #list: Effect[] = []
  #lastId = 0
  readonly #waiting = new Map<number, Then<never>>()

  /** Called when the outcome of a store operation is unknown, with its channel if it has one. */
  onUnknown: (channel: ChannelId | undefined) => void = () => {}

  /** `tookMs`: for an answer, the time since its request arrived. */
  send(streams: readonly StreamId[], message: ServerMessage, tookMs?: number): void {
    if (streams.length > 0) this.#list.push({ type: 'send', streams, message, tookMs })
  }

  end(stream: StreamId): void {
    this.#list.push({ type: 'end', stream })
  }

  part(id: number, answer: PartAnswer): void {
    this.#list.push({ type: 'part', id, answer })
  }

  report(error: unknown): void {
    this.#list.push({ type: 'report', error })
  }

  excess(excess: Excess): void {
    this.#list.push({ type: 'excess', excess })
  }

  began(stream: StreamId, session: SessionNotice): void {
    this.#list.push({ type: 'began', stream, session })
  }

  limit(stream: StreamId, bytes: number): void {
    this.#list.push({ type: 'limit', stream, bytes })
  }

  shape(stream: StreamId, traffic: TrafficProfileName, cellsPerSecond: number): void {
    this.#list.push({ type: 'shape', stream, traffic, cellsPerSecond })
  }

  publish(topic: Topic, news: News): void {
    this.#list.push({ type: 'publish', topic, news })
  }

  watch(topic: Topic, on: boolean): void {
    this.#list.push({ type: 'watch', topic, on })
  }

  store<Name extends StoreOperation>(name: Name, request: StoreRequest<Name>, then: Then<StoreResult<Name>>): void {
    const answered: Then<StoreResult<Name>> = (outcome) => {
      if (isUnknown(outcome)) this.onUnknown('channel' in request ? request.channel : undefined)
      then(outcome)
    }
    this.#list.push({ type: 'store', id: this.#wait(answered), name, request } as StoreEffect)
  }

  verify(jwt: string, then: Then<TokenClaims>): void {
    this.#list.push({ type: 'verify', id: this.#wait(then), jwt })
  }

  lease(account: Account, then: Then<Lease>): void {
    this.#list.push({ type: 'lease', id: this.#wait(then), account })
  }

  settle(settlement: Settlement, then: Then<unknown>): void {
    this.#list.push({ type: 'settle', id: this.#wait(then), ...settlement })
  }

  blocked(accounts: readonly string[], then: Then<BlockedAnswer>): void {
    this.#list.push({ type: 'blocked', id: this.#wait(then), accounts })
  }

  /** An effect is done: runs its continuation. */
  done(id: number, outcome: Outcome<unknown>): void {
    const then = this.#waiting.get(id)
    this.#waiting.delete(id)
    then?.(outcome as Outcome<never>)
  }

  /** The number of effects still waiting for a result. */
  get pending(): number {
    return this.#waiting.size
  }

  /** Returns the collected effects and starts a new list. */
  take(): Effect[] {
    const list = this.#list
    this.#list = []
    return list
  }

  #wait(then: Then<never>): number {
    this.#lastId++
    this.#waiting.set(this.#lastId, then)
    return this.#lastId
  }
}

/** Whether a failed store operation may have taken effect. */
export function isUnknown(outcome: Outcome<unknown>): boolean {
  return !outcome.ok && outcome.error instanceof OutcomeUnknown
}
