/**
 * Waiting to send: limits how long a caller waits, and notifies the application when no message is accepted for a
 * while.
 */
import type { StaticError } from '@static/protocol'
import type { Time } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'

/** Limits how long `send` waits. */
export interface SendLimits {
  /** Ends the wait when aborted. */
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number | undefined
}

/** The application is notified when no message has been accepted for this long. */
const REPORT_AFTER_MS = 5000
const MS = 1000

/** Calls `cancel` when a limit is reached. Returns a function that stops this; undefined without limits. */
export function limitSend(
  context: Pick<AgentContext, 'later'>,
  { signal, timeoutMs }: SendLimits,
  cancel: (cause: unknown, words: string) => void,
): (() => void) | undefined {
  if (!signal && timeoutMs === undefined) return undefined
  const abort = (): void => cancel(signal?.reason, 'The signal was aborted.')
  const stop =
    timeoutMs === undefined
      ? undefined
      : context.later(timeoutMs, () => cancel(undefined, `The timeout of ${timeoutMs / MS} s expired.`))
  if (signal?.aborted) abort()
  else signal?.addEventListener('abort', abort)
  return () => {
    stop?.()
    signal?.removeEventListener('abort', abort)
  }
}

/** The part of its sender that a watch needs. */
interface Watched {
  /** Whether a message of the application is pending. */
  isWaiting(): boolean
  obstacle(): StaticError
}

/** Notifies the application once per wait. A wait ends when a message is accepted. One timer serves all messages. */
export class SendWatch {
  readonly #context: Pick<AgentContext, 'now' | 'later' | 'emit'>
  readonly #channel: string
  readonly #watched: Watched
  #since: Time = 0
  #isReported = false
  #cancel: (() => void) | undefined

  constructor(context: Pick<AgentContext, 'now' | 'later' | 'emit'>, channel: string, watched: Watched) {
    this.#context = context
    this.#channel = channel
    this.#watched = watched
  }

  /** A message is pending. */
  begin(): void {
    if (!this.#cancel) this.#lookAfter(REPORT_AFTER_MS)
  }

  /** A message was accepted, or is the first to wait. */
  progress(): void {
    this.#since = this.#context.now()
    this.#isReported = false
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #lookAfter(milliseconds: number): void {
    this.#cancel = this.#context.later(milliseconds, () => this.#look())
  }

  #look(): void {
    this.#cancel = undefined
    if (!this.#watched.isWaiting()) return
    const left = this.#since + REPORT_AFTER_MS - this.#context.now()
    if (left > 0) return this.#lookAfter(left)
    if (!this.#isReported) {
      this.#isReported = true
      const since = this.#since
      this.#context.emit({ type: 'waiting', channel: this.#channel, error: this.#watched.obstacle(), since })
    }
    this.#lookAfter(REPORT_AFTER_MS)
  }
}
