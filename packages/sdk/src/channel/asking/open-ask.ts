/**
 * One open request of this agent: its unread answers, and how far each member has answered. An answer is settled when
 * the application asks for the next one. If the process ends first, it is delivered again.
 */
import { type StaticError, toHex } from '@static/protocol'
import type { AgentId, AskRecord, InboxRecord, Time } from '../../ports/index.ts'
import type { AgentChannel } from '../channel.ts'
import { Answerer } from './answerer.ts'
import { sizeOfAnswer } from './answer-window.ts'
import type { AnswerError } from './ask-frame.ts'

/** An answer that the application has not settled. */
export interface AnswerEntry {
  readonly record: InboxRecord
  readonly number: number
  readonly content: { readonly payload: Uint8Array } | { readonly error: AnswerError }
  /** Whether it is on disk, or will be with the changes drained last. */
  stored: boolean
  settled: boolean
}

interface Waiting {
  resolve(entry: AnswerEntry | undefined): void
  reject(error: StaticError): void
}

/** A request of this agent. */
export class OpenAsk {
  readonly messageId: Uint8Array
  /** The message id, hexadecimal. */
  readonly id: string
  readonly to: AgentId | undefined
  readonly deadline: Time
  readonly answerers: Map<AgentId, Answerer> = new Map()
  readonly #channel: AgentChannel
  #queue: AnswerEntry[] = []
  #given: AnswerEntry | undefined
  #waiting: Waiting[] = []
  #end: { readonly error: StaticError | undefined } | undefined
  #isAttached = false
  /** Called when there is something new. */
  readonly #watchers = new Set<() => void>()

  constructor(channel: AgentChannel, { messageId, to, deadline }: AskRecord) {
    this.#channel = channel
    this.messageId = messageId
    this.id = toHex(messageId)
    this.to = to
    this.deadline = deadline
  }

  /** Whether nothing more is expected. */
  get isFinished(): boolean {
    return this.#end !== undefined
  }

  /** Whether no answer waits to be read. */
  get isEmpty(): boolean {
    return this.#queue.length === 0
  }

  /** Whether everything that arrived has been read and settled. */
  get isSettled(): boolean {
    return this.isEmpty && this.#given === undefined
  }

  /** The unsettled answers. */
  get unsettled(): readonly AnswerEntry[] {
    return this.#given ? [this.#given, ...this.#queue] : this.#queue
  }

  answererOf(agent: AgentId): Answerer {
    const known = this.answerers.get(agent)
    if (known) return known
    const answerer = new Answerer()
    this.answerers.set(agent, answerer)
    return answerer
  }

  push(entry: AnswerEntry): void {
    this.answererOf(entry.record.sender).push(entry.number, sizeOfEntry(entry))
    this.#queue.push(entry)
    this.#serve()
    this.#tell()
  }

  /**
   * Removes the answers of a member from this number on, because the member repeats them. Does nothing if the
   * application has the first.
   */
  retract(agent: AgentId, number: number): readonly AnswerEntry[] {
    const isGone = (entry: AnswerEntry): boolean => entry.record.sender === agent && entry.number >= number
    const gone = this.#queue.filter(isGone)
    if (gone[0]?.number !== number) return []
    this.#queue = this.#queue.filter((entry) => !isGone(entry))
    this.answererOf(agent).retract(number)
    return gone
  }

  /** Settles the previous answer and returns the next one; undefined at the end. */
  async next(): Promise<AnswerEntry | undefined> {
    this.#attach()
    this.#settle()
    const { promise, resolve, reject } = Promise.withResolvers<AnswerEntry | undefined>()
    this.#waiting.push({ resolve, reject })
    this.#serve()
    return await promise
  }

  /** Nothing more will arrive: readers get the rest, then the error or, without one, the end. */
  finish(error: StaticError | undefined): void {
    this.#end ??= { error }
    this.#serve()
    this.#tell()
  }

  /** Forgets all answers. Readers that have not received all of them get the error. */
  clear(error?: StaticError): void {
    if (error && !this.isSettled) this.#end = { error }
    this.#end ??= { error: undefined }
    this.#queue = []
    this.#given = undefined
    this.#serve()
    this.#tell()
  }

  /** Ends the request. The members asked are notified unless they are done. */
  cancel(): void {
    this.#channel.asks.cancel(this)
  }

  /** The error that ended it. */
  get failure(): StaticError | undefined {
    return this.#end?.error
  }

  /** The members that were asked and have not ended their answers. */
  get missing(): readonly AgentId[] {
    return this.#channel.asks.missing(this)
  }

  /** Resolves when there is an unsettled answer, when nothing more is expected, or when the signal is aborted. */
  async arrival(signal: AbortSignal): Promise<void> {
    this.#attach()
    if (signal.aborted || this.isFinished || !this.isSettled) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const wake = (): void => resolve()
    this.#watchers.add(wake)
    signal.addEventListener('abort', wake)
    await promise
    signal.removeEventListener('abort', wake)
    this.#watchers.delete(wake)
  }

  /** Settles the oldest unsettled answers, without reading others. */
  settle(count: number): void {
    for (const entry of this.unsettled.slice(0, count)) {
      if (entry === this.#given) this.#given = undefined
      else this.#queue.shift()
      this.answererOf(entry.record.sender).read()
      this.#channel.asks.read(this, entry)
    }
  }

  #attach(): void {
    if (this.#isAttached) return
    this.#isAttached = true
    this.#channel.asks.attach(this)
  }

  #tell(): void {
    for (const wake of this.#watchers) wake()
  }

  #settle(): void {
    const entry = this.#given
    if (!entry) return
    this.#given = undefined
    this.answererOf(entry.record.sender).read()
    this.#channel.asks.read(this, entry)
  }

  #serve(): void {
    while (this.#waiting.length > 0) {
      const entry = this.#queue[0]
      if (!entry && !this.#end) return
      const waiting = this.#waiting.shift()
      if (entry) {
        // The answer of an earlier `next` that the caller did not wait for.
        this.#settle()
        this.#queue.shift()
        this.#given = entry
        waiting?.resolve(entry)
      } else if (this.#end?.error) waiting?.reject(this.#end.error)
      else waiting?.resolve(undefined)
    }
  }
}

/** The size of an entry in the window. */
export function sizeOfEntry({ content }: Pick<AnswerEntry, 'content'>): number {
  return sizeOfAnswer('payload' in content ? content.payload : new Uint8Array())
}
