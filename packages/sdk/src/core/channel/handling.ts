/**
 * Runs an application's handler for each message: settles a message when the handler succeeds, and calls it again after
 * a while when it fails. Later messages wait for it, or take another of the `concurrency` places. A message that has
 * failed too often is put aside.
 *
 * An attempt is written down before it begins, except the first attempt at a message that was never given before: that
 * would cost a write for every message. So a handler that ends the process is not called for ever.
 */
import { StaticError } from '@static/protocol'
import type { AgentContext } from '../agent/context.ts'
import type { Entry, Inbox } from './inbox.ts'
import type { Poison } from './poison.ts'

/** Options of `Channel.handle`. */
export interface HandleOptions {
  /** How many messages are handled at the same time. Default: 1, so that they are handled in order. */
  readonly concurrency?: number
  /** How often a message is tried before it is put aside. Default: 10. */
  readonly attempts?: number
  /** Ends the handling: messages in progress are finished, no others are begun. */
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

/** After the first, second, third … failure; the last one again and again. */
const DELAYS_MS: readonly number[] = [1000, 5000, 30_000, 60_000, 300_000]
const ATTEMPTS = 10
const MOST_CONCURRENCY = 1000

/**
 * Handles the messages of a channel until it ends or the signal is aborted.
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
  // All of them have the same reason.
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}

/** Handles one message at a time. */
class Worker {
  readonly #context: HandlingContext
  readonly #channel: HandlingChannel
  readonly #handler: (entry: Entry) => unknown
  readonly #attempts: number
  readonly #signal: AbortSignal | undefined
  /** Ends what it waits for at the moment. */
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

  /** Tries a message until it is settled, put aside or, when the handling ends, given back. */
  async #handle(entry: Entry): Promise<void> {
    const { inbox } = this.#channel
    let { attempts } = entry.record
    // As the last attempt that is known of ended with the process, there is no error to tell.
    let reason = 'The program ended during the last attempt.'
    let isTold = false
    for (;;) {
      if (attempts >= this.#attempts) {
        const isPutAside = this.#channel.poison.put(entry, reason)
        if (!isTold || isPutAside) this.#tellPoison(entry, { attempts, reason, isPutAside })
        isTold = true
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
      this.#tellFailed(entry, { attempts, reason, retryInMs })
      if (!(await this.#wait(retryInMs))) return inbox.release(entry)
    }
  }

  async #begin(entry: Entry, attempts: number): Promise<void> {
    this.#channel.inbox.count(entry, attempts)
    await this.#context.journal.written()
  }

  /** Whether the time has passed; false when the handling ends before. */
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

  #tellFailed(entry: Entry, told: { attempts: number; reason: string; retryInMs: number }): void {
    const { index, sender } = entry.record
    this.#context.emit({ type: 'handler_failed', channel: this.#channel.name, sender, index, ...told })
  }

  #tellPoison(entry: Entry, told: { attempts: number; reason: string; isPutAside: boolean }): void {
    const { index, sender } = entry.record
    this.#context.emit({ type: 'poison', channel: this.#channel.name, sender, index, ...told })
  }
}

function delayAfter(attempts: number): number {
  return DELAYS_MS[Math.min(attempts, DELAYS_MS.length) - 1] ?? 0
}

function checkCount(name: string, value: number, most: number): void {
  if (Number.isSafeInteger(value) && value >= 1 && value <= most) return
  throw StaticError.of('invalid_request', `\`${name}\` is ${value}. It must be a whole number from 1 to ${most}.`)
}
