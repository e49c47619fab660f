/** Requests whose answer is awaited: they wait for a session, and are made again when it is lost. */
import type { StaticError } from '@static/protocol'
import type { Outcome, RelaySession, RequestBody } from '../../ports.ts'
import { type Answer, refusalError, retryDelay } from '../../session/refusal.ts'
import type { Timers } from './timers.ts'

const MOST_TRIES = 10

/** The requests of one agent. */
export class Requests {
  readonly #session: Pick<RelaySession, 'request'>
  readonly #timers: Pick<Timers, 'wait'>
  /** How many sessions have been opened. */
  #sessions = 0
  /** Settled while a session is open. */
  #opened: PromiseWithResolvers<void> = expected()
  /** Settled when the next session is open. */
  #next: PromiseWithResolvers<void> = expected()
  #isStopped = false

  constructor(session: Pick<RelaySession, 'request'>, timers: Pick<Timers, 'wait'>) {
    this.#session = session
    this.#timers = timers
  }

  /**
   * Asks the relay something that can be asked again when the answer does not come; `take` has the answer before
   * anything that came after it.
   *
   * @throws {StaticError} the relay's refusal, or `closed`
   */
  async ask<Case extends RequestBody['case'], Result>(
    body: Extract<RequestBody, { readonly case: Case }>,
    take: (answer: Answer<Case>) => Result,
  ): Promise<Result> {
    for (let tries = 1; ; tries++) {
      await this.#opened.promise
      const session = this.#sessions
      const { promise, resolve, reject } = Promise.withResolvers<{ result: Result } | Outcome>()
      this.#session.request(body, (outcome) => {
        try {
          resolve(outcome.type === 'answered' ? { result: take(outcome.body.value as Answer<Case>) } : outcome)
        } catch (error) {
          reject(error)
        }
      })
      const outcome = await promise
      if ('result' in outcome) return outcome.result
      if (outcome.type !== 'refused') {
        await this.#sessionAfter(session)
        continue
      }
      const { code, retryAfterMs } = outcome.error
      const passes = code === 'unavailable' || code === 'rate_limited'
      if (!passes || tries >= MOST_TRIES) throw refusalError(outcome.error)
      await this.#timers.wait(retryDelay(retryAfterMs))
    }
  }

  /** Asks once; for what depends on the refusal's details. Waits for a session, and again if it is lost. */
  async outcome(body: RequestBody): Promise<Exclude<Outcome, { type: 'lost' }>> {
    for (;;) {
      await this.#opened.promise
      const session = this.#sessions
      const { promise, resolve } = Promise.withResolvers<Outcome>()
      this.#session.request(body, resolve)
      const outcome = await promise
      if (outcome.type !== 'lost') return outcome
      await this.#sessionAfter(session)
    }
  }

  /** A session is open. */
  opened(): void {
    this.#sessions++
    this.#opened.resolve()
    this.#next.resolve()
    this.#next = expected()
  }

  /** The session is over: whoever asks from now on waits for the next one. */
  lost(): void {
    if (!this.#isStopped) this.#expectSession()
  }

  /** There will be no session any more: whoever waits, and whoever asks from now on, gets the error. */
  stop(error: StaticError): void {
    this.#isStopped = true
    this.#expectSession()
    this.#opened.reject(error)
    this.#next.reject(error)
  }

  /** A session that has lost a request takes no other: the next one does. It may be there already. */
  async #sessionAfter(session: number): Promise<void> {
    if (this.#sessions === session) await this.#next.promise
  }

  #expectSession(): void {
    const before = this.#opened
    this.#opened = expected()
    // Who waits already waits for the next one, too.
    this.#opened.promise.then(before.resolve, before.reject)
  }
}

/** A session that nobody has to wait for. */
function expected(): PromiseWithResolvers<void> {
  const waiting = Promise.withResolvers<void>()
  waiting.promise.catch(() => {})
  return waiting
}
