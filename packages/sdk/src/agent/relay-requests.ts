/** Requests with awaited answers: they wait for a session, and are repeated if it is lost. */
import type { StaticError } from '@static/protocol'
import type { AnswerTo, Outcome, RelaySession, RequestBody } from '../ports/index.ts'
import { refusalError, retryDelay } from '../ports/refusal.ts'
import type { Timers } from './timers.ts'

const MOST_TRIES = 10

/** The requests of one agent. */
export class RelayRequests {
  readonly #session: Pick<RelaySession, 'request'>
  readonly #timers: Pick<Timers, 'wait'>
  /** The number of sessions opened so far. */
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
   * Makes a request that can be repeated if the answer is lost. `read` gets the answer before anything that arrived
   * after it.
   *
   * @throws {StaticError} the relay's refusal, or `closed`
   */
  async ask<Case extends RequestBody['case'], Result>(
    body: Extract<RequestBody, { readonly case: Case }>,
    read: (answer: AnswerTo<Case>) => Result,
  ): Promise<Result> {
    for (let tries = 1; ; tries++) {
      await this.#opened.promise
      const session = this.#sessions
      const { promise, resolve, reject } = Promise.withResolvers<{ result: Result } | Outcome>()
      this.#session.request(body, (outcome) => {
        try {
          resolve(outcome.type === 'answered' ? { result: read(outcome.body.value as AnswerTo<Case>) } : outcome)
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

  /** Makes a request and returns a refusal with its details. Waits for a session, and again if that session is lost. */
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

  /** The session is lost: later requests wait for the next one. */
  lost(): void {
    if (!this.#isStopped) this.#expectSession()
  }

  /** There will be no more sessions: pending and later requests get the error. */
  stop(error: StaticError): void {
    this.#isStopped = true
    this.#expectSession()
    this.#opened.reject(error)
    this.#next.reject(error)
  }

  /** Waits for the next session, which may already be open: one that has lost a request accepts no more. */
  async #sessionAfter(session: number): Promise<void> {
    if (this.#sessions === session) await this.#next.promise
  }

  #expectSession(): void {
    const before = this.#opened
    this.#opened = expected()
    // Requests that are already waiting wait for the next session as well.
    this.#opened.promise.then(before.resolve, before.reject)
  }
}

/** A promise whose rejection may go unhandled, because there may be no one waiting for it. */
function expected(): PromiseWithResolvers<void> {
  const waiting = Promise.withResolvers<void>()
  waiting.promise.catch(() => {})
  return waiting
}
