/**
 * Runs an application's handler for each message: settles the message when the handler succeeds, and retries after a
 * delay when it fails. Meanwhile, later messages from the same sender wait, or run alongside it as `concurrency`
 * allows; other senders do not wait for it. A message that fails too often is put aside.
 *
 * Every attempt is written to disk before it starts, so that a handler that crashes the process is not retried forever.
 * The exception is the first attempt at a message that was never delivered before: it would cost a write per message.
 */
import { StaticError, toHex } from '@static/protocol'
import type { AgentId } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { HandlerFailure } from '../../agent/log/handler-log.ts'
import type { Inbox } from './inbox.ts'
import type { InboxEntry } from './inbox.ts'
import { MOST_REASON_CHARACTERS, type Poison } from './poison.ts'
import { Unfit } from './unfit.ts'

/** Options of `Channel.handle`. */
export interface HandleOptions {
  /** The number of messages handled at the same time. Default: 1, which keeps each sender's messages in order. */
  readonly concurrency?: number
  /** The number of attempts before a message is put aside (see `Channel.poison`). Default: 10. */
  readonly attempts?: number
  /** Stops handling: messages in progress are finished, and no others are started. */
  readonly signal?: AbortSignal
}

/** The context that handling needs from its agent. */
type HandlingContext = Pick<AgentContext, 'journal' | 'later' | 'emit'>

/** The parts of its channel that handling needs. */
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
  handler: (entry: InboxEntry) => unknown,
  options: HandleOptions,
): Promise<void> {
  const { concurrency = 1, attempts = ATTEMPTS, signal } = options
  checkCount('concurrency', concurrency, MOST_CONCURRENCY)
  checkCount('attempts', attempts, Number.MAX_SAFE_INTEGER)
  await new Handling(context, channel, handler, { concurrency, attempts, ...(signal && { signal }) }).run()
}

/** The messages of one sender that are held back without delaying other senders. */
interface Held {
  /** How many are waiting for their next attempt. */
  waiting: number
  /** Later messages, which wait for those. The inbox bounds them. */
  readonly queue: InboxEntry[]
}

class Handling {
  readonly #context: HandlingContext
  readonly #channel: HandlingChannel
  readonly #handler: (entry: InboxEntry) => unknown
  readonly #attempts: number
  readonly #concurrency: number
  readonly #signal: AbortSignal | undefined
  readonly #places: Places
  readonly #held = new Map<AgentId, Held>()
  readonly #tasks = new Set<Promise<void>>()
  /** Callbacks that end a wait. */
  readonly #wakes = new Set<() => void>()
  #isStopped = false
  #failure: { readonly cause: unknown } | undefined

  constructor(
    context: HandlingContext,
    channel: HandlingChannel,
    handler: (entry: InboxEntry) => unknown,
    { concurrency, attempts, signal }: Pick<HandleOptions, 'signal'> & { concurrency: number; attempts: number },
  ) {
    this.#context = context
    this.#channel = channel
    this.#handler = handler
    this.#attempts = attempts
    this.#concurrency = concurrency
    this.#signal = signal
    this.#places = new Places(concurrency)
  }

  async run(): Promise<void> {
    const { inbox } = this.#channel
    const reader = inbox.read((entry) => entry, { ahead: true })
    const stop = (): void => this.#stop()
    this.#wakes.add(() => void reader.return?.())
    const forget = inbox.onStop(stop)
    this.#signal?.addEventListener('abort', stop)
    if (this.#signal?.aborted === true) stop()
    try {
      await this.#read(reader)
    } finally {
      // Waiting messages are still tried when no more can arrive, unless handling stops.
      while (this.#tasks.size > 0) await Promise.all(this.#tasks)
      this.#signal?.removeEventListener('abort', stop)
      forget()
    }
    if (this.#failure) throw this.#failure.cause
  }

  #stop(): void {
    this.#isStopped = true
    for (const wake of this.#wakes) wake()
  }

  async #read(reader: AsyncIterator<InboxEntry, undefined>): Promise<void> {
    while (!this.#isStopped) {
      const { value: entry } = await reader.next()
      if (!entry) return
      // Otherwise the reader would settle it with the next one.
      entry.holder = this
      await this.#places.acquire()
      const held = this.#held.get(entry.record.sender)
      if (this.#isStopped) this.#channel.inbox.release(entry)
      else if (held && held.waiting >= this.#concurrency) held.queue.push(entry)
      else {
        this.#start(this.#handle(entry))
        continue
      }
      this.#places.giveBack()
    }
  }

  #start(task: Promise<void>): void {
    const failed = (cause: unknown): void => {
      this.#failure ??= { cause }
      this.#stop()
    }
    const watched = task.catch(failed).finally(() => this.#tasks.delete(watched))
    this.#tasks.add(watched)
  }

  /** Makes the next attempt at a message, then, in the same place, at the messages of its sender that waited for it. */
  async #handle(first: InboxEntry, before?: Trial): Promise<void> {
    const { inbox } = this.#channel
    const { sender } = first.record
    try {
      let trial = before
      for (let entry: InboxEntry | undefined = first; entry; trial = undefined) {
        const delay: number | undefined = await this.#attemptOrRelease(entry, (trial ??= newTrial(entry)))
        if (delay !== undefined) this.#start(this.#later(entry, trial, delay))
        const held = this.#held.get(sender)
        const isFree = held !== undefined && held.waiting < this.#concurrency && !this.#isStopped
        entry = isFree ? held.queue.shift() : undefined
      }
    } finally {
      this.#places.giveBack()
    }
    const held = this.#held.get(sender)
    if (!held) return
    if (this.#isStopped) for (const entry of held.queue.splice(0)) inbox.release(entry)
    if (held.waiting === 0 && held.queue.length === 0) this.#held.delete(sender)
  }

  /** Retries a message after a delay. Until then, its sender has one place fewer. */
  async #later(entry: InboxEntry, trial: Trial, delay: number): Promise<void> {
    const { sender } = entry.record
    const held = this.#held.get(sender) ?? { waiting: 0, queue: [] }
    this.#held.set(sender, held)
    held.waiting++
    const isDue = await this.#wait(delay)
    if (isDue) await this.#places.acquire()
    held.waiting--
    if (isDue && !this.#isStopped) return this.#handle(entry, trial)
    if (isDue) this.#places.giveBack()
    for (const each of [entry, ...held.queue.splice(0)]) this.#channel.inbox.release(each)
  }

  /** Like `#attempt`, but if the disk fails, another `handle` gets the message. */
  async #attemptOrRelease(entry: InboxEntry, trial: Trial): Promise<number | undefined> {
    try {
      return await this.#attempt(entry, trial)
    } catch (error) {
      this.#channel.inbox.release(entry)
      throw error
    }
  }

  /** Makes one attempt. Returns the delay before the next one; undefined if the message is settled or put aside. */
  async #attempt(entry: InboxEntry, trial: Trial): Promise<number | undefined> {
    const { inbox } = this.#channel
    inbox.given(entry)
    if (trial.attempts < this.#attempts || trial.isReported) {
      const isFirst = trial.attempts === 0 && !entry.redelivered
      trial.attempts++
      if (!isFirst) await this.#begin(entry, trial.attempts)
      try {
        await this.#handler(entry)
        inbox.settle(entry)
        return undefined
      } catch (error) {
        // It may quote the message, which can be 256 KiB long.
        trial.reason = (error instanceof Error ? error.message : String(error)).slice(0, MOST_REASON_CHARACTERS)
        trial.failure = { error, payload: entry.payload }
        trial.isUnfit = error instanceof Unfit
      }
      if (entry.settled) return undefined
      if (isFirst) inbox.count(entry, trial.attempts)
    }
    const { attempts, reason, failure } = trial
    const about = { channel: this.#channel.name, ...namesOf(entry), attempts, reason }
    const delay = delayAfter(attempts)
    if (attempts < this.#attempts && !trial.isUnfit) {
      this.#context.emit({ type: 'handler_failed', ...about, retryInMs: delay }, failure)
      return delay
    }
    const isPutAside = this.#channel.poison.put(entry, reason)
    if (!trial.isReported || isPutAside) this.#context.emit({ type: 'poison', ...about, isPutAside }, failure)
    trial.isReported = true
    return isPutAside ? undefined : delay
  }

  async #begin(entry: InboxEntry, attempts: number): Promise<void> {
    this.#channel.inbox.count(entry, attempts)
    await this.#context.journal.written()
  }

  /** Waits. Returns false if handling stops first. */
  async #wait(milliseconds: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const cancel = this.#context.later(milliseconds, () => resolve(true))
    const wake = (): void => resolve(false)
    this.#wakes.add(wake)
    if (this.#isStopped) wake()
    const isOver = await promise
    this.#wakes.delete(wake)
    cancel()
    return isOver
  }
}

/** The fields that identify a message in an event. */
function namesOf({ record }: InboxEntry): { sender: AgentId; index: number; messageId: string } {
  const { sender, index, messageId } = record
  return { sender, index, messageId: toHex(messageId) }
}

/** The attempts at a message so far. */
interface Trial {
  attempts: number
  reason: string
  /** Whether its payload does not fit, so that another attempt would be in vain. */
  isUnfit: boolean
  /** What the handler threw; undefined if the program ended during the attempt. */
  failure: HandlerFailure | undefined
  /** Whether it was reported as due to be put aside. */
  isReported: boolean
}

function newTrial({ record }: InboxEntry): Trial {
  // Kept if the last recorded attempt ended with the process, so that its error is unknown.
  const reason = 'The program ended during the last attempt.'
  return { attempts: record.attempts, reason, failure: undefined, isUnfit: false, isReported: false }
}

/** The handlers that may run at the same time. */
class Places {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(count: number) {
    this.#free = count
  }

  /** Resolves with a place, in the order of the calls. */
  async acquire(): Promise<void> {
    if (this.#free > 0) this.#free--
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  giveBack(): void {
    const next = this.#waiting.shift()
    if (next) next()
    else this.#free++
  }
}

function delayAfter(attempts: number): number {
  return DELAYS_MS[Math.min(attempts, DELAYS_MS.length) - 1] ?? 0
}

function checkCount(name: string, value: number, most: number): void {
  if (Number.isSafeInteger(value) && value >= 1 && value <= most) return
  throw StaticError.of('invalid_request', `\`${name}\` is ${value}. It must be a whole number from 1 to ${most}.`)
}
