/**
 * Runs an application's handler for each message: settles the message when the handler succeeds, and retries after a
 * delay when it fails. Later messages wait, or run in another of the `concurrency` workers. A message that fails too
 * often is put aside.
 *
 * Every attempt is written to disk before it starts, so that a handler that crashes the process is not retried forever.
 * The exception is the first attempt at a message that was never delivered before: it would cost a write per message.
 */
import { StaticError } from '@static/protocol'
import type { AgentContext } from '../agent/context.ts'
import type { Entry, Inbox } from './inbox.ts'
import type { Poison } from './poison.ts'

/** Options of `Channel.handle`. */
export interface HandleOptions {
  /** The number of messages handled at the same time. Default: 1, which keeps them in order. */
  readonly concurrency?: number
  /** The number of attempts before a message is put aside (see `Channel.poison`). Default: 10. */
  readonly attempts?: number
  /** Stops handling: messages in progress are finished, and no others are started. */
  readonly signal?: AbortSignal
}

/** What handling asks of its agent. */
type HandlingContext = Pick<AgentContext, 'journal' | 'later' | 'emit'>

/** What handling needs of its channel. */
interface HandlingChannel {
  readonly name: string
  readonly inbox: Inbox
  readonly poison: Poison
}

/** The delay after the first, second, third … failure. The last one repeats. */
const DELAYS_MS: readonly number[] = [1000, 5000, 30_000, 60_000, 300_000]
const ATTEMPTS = 10
const MOST_CONCURRENCY = 1000

/**
 * Handles the messages of a channel until the channel ends or the signal is aborted.
 *
 * @throws {StaticError} `invalid_request` for invalid options, or the error that ended the channel
 */
export async function handleMessages(
  context: HandlingContext,
  channel: HandlingChannel,
  handler: (entry: Entry) => unknown,
  options: HandleOptions,
): Promise<void> {
  const { concurrency = 1, attempts = ATTEMPTS, signal } = options
  checkCount('concurrency', concurrency, MOST_CONCURRENCY)
  checkCount('attempts', attempts, Number.MAX_SAFE_INTEGER)
  const workers = Array.from({ length: concurrency }, () => new Worker(context, channel, handler, { attempts, signal }))
  const ends = await Promise.allSettled(workers.map((worker) => worker.run()))
  // All workers fail for the same reason.
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}

/** Handles one message at a time. */
class Worker {
  readonly #context: HandlingContext
  readonly #channel: HandlingChannel
  readonly #handler: (entry: Entry) => unknown
  readonly #attempts: number
  readonly #signal: AbortSignal | undefined
  /** Ends the current wait. */
  #wake: () => void = () => {}

  constructor(
    context: HandlingContext,
    channel: HandlingChannel,
    handler: (entry: Entry) => unknown,
    { attempts, signal }: { readonly attempts: number; readonly signal: AbortSignal | undefined },
  ) {
    this.#context = context
    this.#channel = channel
    this.#handler = handler
    this.#attempts = attempts
    this.#signal = signal
  }

  async run(): Promise<void> {
    const abort = (): void => this.#wake()
    this.#signal?.addEventListener('abort', abort)
    const reader = this.#channel.inbox.read((entry) => entry)
    try {
      while (!this.#isAborted) {
        this.#wake = () => void reader.return?.()
        const { value: entry } = await reader.next()
        this.#wake = () => {}
        if (!entry) return
        await this.#handle(entry)
      }
    } finally {
      this.#signal?.removeEventListener('abort', abort)
    }
  }

  get #isAborted(): boolean {
    return this.#signal?.aborted === true
  }

  /** Retries a message until it is settled, put aside or, when handling stops, released. */
  async #handle(entry: Entry): Promise<void> {
    const { inbox } = this.#channel
    let { attempts } = entry.record
    // Kept if the last recorded attempt ended with the process, so that its error is unknown.
    let reason = 'The program ended during the last attempt.'
    let isReported = false
    for (;;) {
      if (attempts >= this.#attempts) {
        const isPutAside = this.#channel.poison.put(entry, reason)
        if (!isReported || isPutAside) this.#reportPoison(entry, { attempts, reason, isPutAside })
        isReported = true
        if (isPutAside) return
        if (!(await this.#wait(delayAfter(attempts)))) return inbox.release(entry)
      }
      const isFirst = attempts === 0 && !entry.redelivered
      attempts++
      if (!isFirst) await this.#begin(entry, attempts)
      try {
        await this.#handler(entry)
        return inbox.settle(entry)
      } catch (error) {
        reason = error instanceof Error ? error.message : String(error)
      }
      if (entry.settled) return
      if (isFirst) inbox.count(entry, attempts)
      if (attempts >= this.#attempts) continue
      const retryInMs = delayAfter(attempts)
      this.#reportFailure(entry, { attempts, reason, retryInMs })
      if (!(await this.#wait(retryInMs))) return inbox.release(entry)
    }
  }

  async #begin(entry: Entry, attempts: number): Promise<void> {
    this.#channel.inbox.count(entry, attempts)
    await this.#context.journal.written()
  }

  /** Waits. Returns false if handling stops first. */
  async #wait(milliseconds: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const cancel = this.#context.later(milliseconds, () => resolve(true))
    const forget = this.#channel.inbox.onStop(() => resolve(false))
    this.#wake = () => resolve(false)
    if (this.#isAborted) resolve(false)
    const isOver = await promise
    this.#wake = () => {}
    forget()
    cancel()
    return isOver
  }

  #reportFailure(entry: Entry, details: { attempts: number; reason: string; retryInMs: number }): void {
    const { index, sender } = entry.record
    this.#context.emit({ type: 'handler_failed', channel: this.#channel.name, sender, index, ...details })
  }

  #reportPoison(entry: Entry, details: { attempts: number; reason: string; isPutAside: boolean }): void {
    const { index, sender } = entry.record
    this.#context.emit({ type: 'poison', channel: this.#channel.name, sender, index, ...details })
  }
}

function delayAfter(attempts: number): number {
  return DELAYS_MS[Math.min(attempts, DELAYS_MS.length) - 1] ?? 0
}

function checkCount(name: string, value: number, most: number): void {
  if (Number.isSafeInteger(value) && value >= 1 && value <= most) return
  throw StaticError.of('invalid_request', `\`${name}\` is ${value}. It must be a whole number from 1 to ${most}.`)
}
