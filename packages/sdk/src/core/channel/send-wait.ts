/** Waiting to send: how long a caller waits, and what the application is told when nothing is taken for a while. */
import type { StaticError } from '@static/protocol'
import type { Time } from '../../ports.ts'
import type { AgentContext } from '../agent/context.ts'

/** How long `send` waits. */
export interface SendLimits {
  /** Ends the wait when it is aborted. */
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number | undefined
}

/** The application is told when nothing was taken for so long. */
const TELL_AFTER_MS = 5000
const MS = 1000

/** Calls `cancel` when a limit is reached; the result ends that, and is undefined without limits. */
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
      : context.later(timeoutMs, () => cancel(undefined, `The timeout of ${timeoutMs / MS} s is over.`))
  if (signal?.aborted) abort()
  else signal?.addEventListener('abort', abort)
  return () => {
    stop?.()
    signal?.removeEventListener('abort', abort)
  }
}

/** What a watch asks of its sender. */
interface Watched {
  /** Whether a message of the application waits. */
  isWaiting(): boolean
  obstacle(): StaticError
}

/** Tells the application once for each wait, which ends when a message is taken. One timer serves all messages. */
export class SendWatch {
  readonly #context: Pick<AgentContext, 'now' | 'later' | 'emit'>
  readonly #channel: string
  readonly #watched: Watched
  #since: Time = 0
  #isTold = false
  #cancel: (() => void) | undefined

  constructor(context: Pick<AgentContext, 'now' | 'later' | 'emit'>, channel: string, watched: Watched) {
    this.#context = context
    this.#channel = channel
    this.#watched = watched
  }

  /** A message waits. */
  begin(): void {
    if (!this.#cancel) this.#lookAfter(TELL_AFTER_MS)
  }

  /** A message was taken, or is the first to wait. */
  progress(): void {
    this.#since = this.#context.now()
    this.#isTold = false
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
    const left = this.#since + TELL_AFTER_MS - this.#context.now()
    if (left > 0) return this.#lookAfter(left)
    if (!this.#isTold) {
      this.#isTold = true
      const since = this.#since
      this.#context.emit({ type: 'waiting', channel: this.#channel, error: this.#watched.obstacle(), since })
    }
    this.#lookAfter(TELL_AFTER_MS)
  }
}
