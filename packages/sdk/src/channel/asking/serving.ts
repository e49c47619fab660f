/**
 * Runs an application's handler for each request and sends what it yields as answers. The requests of one asker are
 * served one at a time, or as many as `perAsker` allows; askers do not wait for each other while there are free places.
 * A request that waits for its answers to be read gives up its place, because only work holds a place. A request is
 * settled when the relay has accepted its last answer. If the process ends before that, it is served again, as
 * `redelivered`. No handler starts while the channel cannot send until the application acts (in a fork, or with a full
 * inbox): its work would be wasted again and again.
 */
import { nextTurn } from '#platform/turn'
import { StaticError, toHex } from '@static/protocol'
import { payloadBytes } from '../sending/payload.ts'
import type { AgentId } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { Committer } from '../members/committer.ts'
import type { Intake } from '../receiving/intake.ts'
import type { InboxEntry } from '../receiving/inbox.ts'
import { MOST_REASON_CHARACTERS } from '../receiving/poison.ts'
import type { Sender } from '../sending/sender.ts'
import { Answering } from './answering.ts'
import { decodeRequest, MOST_ASK_BYTES } from './ask-frame.ts'
import { Job } from './job.ts'
import { isExpired, type ReceivedRequests } from './received-requests.ts'

/** Options of `Channel.serve`. */
export interface ServeOptions {
  /** The number of requests served at the same time. One asker gets at most three quarters of them. Default: 64. */
  readonly concurrency?: number
  /**
   * The number of requests from the same asker served at the same time. A request that waits for its answers to be read
   * does not count. Default: 1.
   */
  readonly perAsker?: number
  /** Stops serving: requests in progress are finished, and no others are started. */
  readonly signal?: AbortSignal
}

/** The result of a handler: answers one by one, or a promise of a single one. */
export type Answers =
  | AsyncIterable<Uint8Array | string, Uint8Array | string | void>
  | Promise<Uint8Array | string | void>

/** A request that is being served, for its handler. */
export interface ServedRequest {
  /** Aborted when the asker wants no more answers. */
  readonly signal: AbortSignal
  /** Resolves when it leaves the server, to whether the relay has accepted all of its answer. */
  readonly over: Promise<boolean>
}

/** Serves one request. */
export type RequestHandler = (entry: InboxEntry, served: ServedRequest) => Answers

/** The context that serving needs from its agent. */
type ServingContext = Pick<AgentContext, 'now' | 'later' | 'emit'>

/** The parts of its channel that serving needs. */
interface ServingChannel {
  readonly name: string
  readonly requests: ReceivedRequests
  readonly sender: Pick<Sender, 'send'>
  readonly committer: Pick<Committer, 'refusal'>
  readonly intake: Pick<Intake, 'blocked'>
}

const CONCURRENCY = 64
const PER_ASKER = 1
const MOST_CONCURRENCY = 1000
/** A third of an asker's own places counts twice, so greedy askers leave some for others. */
const OWN_PART: number = 1 / 3
/** The delays before a request is served again because its answers could not be sent. The last one repeats. */
const DELAYS_MS: readonly number[] = [1000, 5000, 30_000, 60_000]

const STOPPED: StaticError = StaticError.of('closed', 'The server has stopped.')

/** The requests of one asker. */
interface Lane {
  running: number
  /** Requests that gave up their place to others of the same asker, until the asker has read their answers. */
  aside: number
  /** Callbacks that resume requests whose answers have been read. */
  readonly returning: (() => void)[]
  readonly queue: Job[]
}

/**
 * Serves the requests of a channel until the channel ends or the signal is aborted.
 *
 * @throws {StaticError} `invalid_request` for invalid options, or the error that ended the channel
 */
export async function serveRequests(
  context: ServingContext,
  channel: ServingChannel,
  handler: RequestHandler,
  { concurrency = CONCURRENCY, perAsker = PER_ASKER, signal }: ServeOptions,
): Promise<void> {
  checkCount('concurrency', concurrency)
  checkCount('perAsker', perAsker)
  await new Serving(context, channel, handler, { concurrency, perAsker, signal }).run()
}

interface Limits {
  readonly concurrency: number
  readonly perAsker: number
  readonly signal: AbortSignal | undefined
}

class Serving {
  readonly #context: ServingContext
  readonly #channel: ServingChannel
  readonly #handler: RequestHandler
  readonly #options: Limits
  readonly #lanes = new Map<AgentId, Lane>()
  readonly #active = new Set<Job>()
  readonly #tasks = new Set<Promise<void>>()
  /** Callbacks that end a wait. */
  readonly #wakes = new Set<() => void>()
  #running = 0
  #aside = 0
  #isStopped = false

  constructor(context: ServingContext, channel: ServingChannel, handler: RequestHandler, options: Limits) {
    this.#context = context
    this.#channel = channel
    this.#handler = handler
    this.#options = options
  }

  async run(): Promise<void> {
    const { inbox } = this.#channel.requests
    const { signal } = this.#options
    const reader = inbox.read((entry) => entry, { ahead: true })
    const rest = this.#channel.requests.serves()
    const stop = (): void => this.#stop()
    this.#wakes.add(() => void reader.return?.())
    const forget = inbox.onStop(stop)
    signal?.addEventListener('abort', stop)
    if (signal?.aborted === true) stop()
    try {
      await this.#read(reader)
    } finally {
      this.#stop()
      while (this.#tasks.size > 0) await Promise.all(this.#tasks)
      signal?.removeEventListener('abort', stop)
      rest()
      forget()
    }
  }

  #stop(): void {
    if (this.#isStopped) return
    this.#isStopped = true
    for (const lane of this.#lanes.values()) {
      for (const { entry } of lane.queue.splice(0)) this.#channel.requests.release(entry)
      for (const goOn of lane.returning.splice(0)) this.#place(lane, goOn)
    }
    // An asker that reads nothing must not keep serving from ending.
    for (const { answering } of this.#active) answering?.hurry(STOPPED)
    for (const wake of this.#wakes) wake()
  }

  /** Reads ahead, so that an asker with many requests does not hold back others. The room for requests bounds this. */
  async #read(reader: AsyncIterator<InboxEntry, undefined>): Promise<void> {
    const { requests } = this.#channel
    while (!this.#isStopped) {
      const { value: entry } = await reader.next()
      if (!entry) return
      // Otherwise the reader would settle it with the next one.
      entry.holder = this
      const job = new Job(entry)
      const running = { cancel: () => this.#cancel(job), more: (read: number) => job.answering?.more(read) }
      if (this.#isStopped) requests.release(entry)
      else if (requests.begin(entry, running)) this.#queue(job)
      else requests.settle(entry)
    }
  }

  #queue(job: Job): void {
    const { sender } = job.entry.record
    const lane = this.#lanes.get(sender) ?? { running: 0, aside: 0, returning: [], queue: [] }
    this.#lanes.set(sender, lane)
    lane.queue.push(job)
    this.#next()
  }

  /** Starts requests while there are places, taking askers in turn. */
  #next(): void {
    const { concurrency, perAsker } = this.#options
    for (const [asker, lane] of this.#lanes) {
      if (this.#running >= concurrency || this.#isStopped) return
      const hasPlace = lane.running < perAsker && this.#running + lane.running * OWN_PART < concurrency
      const start = hasPlace ? (lane.returning.shift() ?? this.#starting(asker, lane)) : undefined
      if (!start) continue
      // Moves this asker behind the others.
      this.#lanes.delete(asker)
      this.#lanes.set(asker, lane)
      this.#place(lane, start)
    }
  }

  /** Takes a place for a request that starts or resumes. */
  #place(lane: Lane, start: () => void): void {
    lane.running++
    this.#running++
    start()
  }

  /** Returns a function that starts the asker's next request, if there is one. */
  #starting(asker: AgentId, lane: Lane): (() => void) | undefined {
    const job = lane.queue.shift()
    if (!job) return undefined
    return () => {
      const task = this.#serve(job, lane).finally(() => {
        this.#tasks.delete(task)
        // A handler that ignores the signal keeps its place. Otherwise an asker could start any number by cancelling.
        void job.handled.finally(() => this.#free(asker, lane))
      })
      this.#tasks.add(task)
    }
  }

  #free(asker: AgentId, lane: Lane): void {
    this.#running--
    lane.running--
    const isIdle = lane.running === 0 && lane.aside === 0 && lane.queue.length === 0
    if (isIdle && this.#lanes.get(asker) === lane) this.#lanes.delete(asker)
    this.#next()
  }

  #cancel(job: Job): void {
    job.abort(StaticError.of('cancelled', 'The asker has cancelled the request.'))
    const queue = this.#lanes.get(job.entry.record.sender)?.queue ?? []
    const at = queue.indexOf(job)
    if (at < 0) return
    queue.splice(at, 1)
    this.#channel.requests.settle(job.entry)
  }

  /** Serves a request until its last answer is accepted, it is cancelled, it expires, or serving stops. */
  async #serve(job: Job, lane: Lane): Promise<void> {
    const { requests, sender } = this.#channel
    const { entry } = job
    const expiry = this.#expire(job)
    let isAnswered = false
    this.#active.add(job)
    try {
      while (!job.isAborted && !isExpired(entry, this.#context.now())) {
        if (this.#isHalted) {
          if (!(await this.#wait((go) => requests.onSendable(go), job.aborted))) return this.#release(job)
          continue
        }
        requests.inbox.given(entry)
        job.answering = new Answering(entry.record.messageId, sender, () => this.#hold(job, lane))
        if (this.#isStopped) job.answering.hurry(STOPPED)
        try {
          await this.#answer(job, job.answering)
          isAnswered = !job.isAborted
          break
        } catch {
          // Its answers could not be sent. They are numbered, so the asker accepts none of them twice.
        }
        entry.redelivered = true
        const delay = DELAYS_MS[Math.min(job.failures++, DELAYS_MS.length - 1)] ?? 0
        const pause = (go: () => void): (() => void) => this.#context.later(delay, go)
        if (!job.isAborted && !(await this.#wait(pause, job.aborted))) return this.#release(job)
      }
      requests.settle(entry, isAnswered)
      job.leave(isAnswered)
    } finally {
      this.#active.delete(job)
      expiry()
    }
  }

  #release(job: Job): void {
    this.#channel.requests.release(job.entry)
    job.leave(false)
  }

  /** Runs the handler and sends its answers. Throws if they cannot be sent. */
  async #answer(job: Job, answering: Answering): Promise<void> {
    let last: Uint8Array | undefined
    let failure: StaticError | undefined
    try {
      last = await this.#run(job, answering)
    } catch (error) {
      if (error instanceof Unsent) throw error.cause
      failure = this.#failed(job.entry, error)
    }
    if (job.isAborted) return
    if (failure) await answering.end({ error: { code: failure.code, message: failure.message } })
    else await answering.end(last && { payload: last })
  }

  /** Returns the last answer, so that it is sent with the end. */
  async #run(job: Job, answering: Answering): Promise<Uint8Array | undefined> {
    const answers = this.#handler(job.entry, job)
    // Stops waiting for a handler that ignores the signal.
    const { aborted } = job
    if (!(Symbol.asyncIterator in answers)) {
      job.handled = Promise.allSettled([answers])
      return bytesOf(await Promise.race([answers, aborted]))
    }
    const iterator = answers[Symbol.asyncIterator]()
    let step: ReturnType<typeof iterator.next> | undefined
    let held: Uint8Array | undefined
    const send = async (): Promise<void> => {
      const bytes = held
      held = undefined
      if (bytes) await answering.send(bytes).catch((cause: unknown) => Promise.reject(new Unsent(cause)))
    }
    try {
      for (;;) {
        step = iterator.next()
        job.step = Promise.allSettled([step])
        // Most handlers end right after their last answer.
        if (held && !(await isSoon(step))) await send()
        const result = await Promise.race([step, aborted])
        if (!result) return undefined
        const { done, value } = result
        const bytes = bytesOf(value)
        if (done !== true || bytes) await send()
        if (done === true) return bytes ?? held
        held = bytes
      }
    } finally {
      // Not awaited: the handler may ignore this as well.
      job.handled = Promise.allSettled([step, iterator.return?.()])
    }
  }

  /** Reports a handler's error to the application, and returns the error for the asker. */
  #failed(entry: InboxEntry, error: unknown): StaticError {
    const { index, sender } = entry.record
    const reason = (error instanceof Error ? error.message : String(error)).slice(0, MOST_REASON_CHARACTERS)
    const payload = decodeRequest(entry.payload)?.payload ?? new Uint8Array()
    this.#context.emit(
      { type: 'request_failed', channel: this.#channel.name, sender, index, reason },
      { error, payload },
    )
    if (error instanceof StaticError) return error
    return StaticError.of('internal_error', 'The handler of the request failed.')
  }

  /**
   * While an asker does not read the answers to a request, other requests get its place once the handler has stopped at
   * its next answer. The asker's own requests may use it only while no more than `concurrency` wait like this. Returns
   * a function that waits for a place again.
   */
  #hold(job: Job, lane: Lane): () => Promise<void> {
    let isRead = false
    let isAway = false
    let isAside = false
    void job.step.then(() => {
      if (isRead) return
      isAway = true
      isAside = this.#aside + lane.aside * OWN_PART < this.#options.concurrency
      this.#running--
      if (isAside) {
        lane.running--
        lane.aside++
        this.#aside++
      }
      this.#next()
    })
    return async () => {
      isRead = true
      if (isAway && !isAside) this.#running++
      if (!isAside) return
      const { promise, resolve } = Promise.withResolvers<void>()
      lane.returning.push(resolve)
      if (this.#isStopped) this.#return(lane, resolve)
      else this.#next()
      await Promise.race([promise, job.aborted])
      this.#return(lane, resolve)
      this.#aside--
      lane.aside--
    }
  }

  /** Resumes a request that still waits for a place, so that it can end. */
  #return(lane: Lane, goOn: () => void): void {
    const at = lane.returning.indexOf(goOn)
    if (at < 0) return
    lane.returning.splice(at, 1)
    this.#place(lane, goOn)
  }

  /** Cancels a request when it expires. Returns a function that stops this. */
  #expire(job: Job): () => void {
    const { record, payload } = job.entry
    const left = record.receivedAt + (decodeRequest(payload)?.lifetimeMs ?? 0) - this.#context.now()
    return this.#context.later(Math.max(0, left), () => {
      job.abort(StaticError.of('ask_timeout', `Request ${toHex(record.messageId)} has expired.`))
    })
  }

  /** Whether nothing can be sent until the application acts. */
  get #isHalted(): boolean {
    const { committer, intake } = this.#channel
    return (committer.refusal ?? intake.blocked) !== undefined
  }

  /**
   * Waits until `begin` calls back; `begin` returns a function that cancels this. Returns false if serving stops first.
   */
  async #wait(begin: (go: () => void) => () => void, aborted: Promise<undefined>): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const cancel = begin(() => resolve(true))
    const wake = (): void => resolve(false)
    this.#wakes.add(wake)
    void aborted.then(() => resolve(true))
    if (this.#isStopped) wake()
    const isOver = await promise
    this.#wakes.delete(wake)
    cancel()
    return isOver
  }
}

/** The answers could not be sent, as opposed to an error of the handler. */
class Unsent extends Error {
  constructor(cause: unknown) {
    super('The answers could not be sent.', { cause })
  }
}

function bytesOf(value: unknown): Uint8Array | undefined {
  return value === undefined ? undefined : payloadBytes(value, MOST_ASK_BYTES)
}

/** Whether a promise settles before anything else happens. */
async function isSoon(promise: Promise<unknown>): Promise<boolean> {
  const settled = promise.then(
    () => true,
    () => true,
  )
  return await Promise.race([settled, new Promise<boolean>((resolve) => nextTurn(() => resolve(false)))])
}

function checkCount(name: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1 && value <= MOST_CONCURRENCY) return
  throw StaticError.of(
    'invalid_request',
    `\`${name}\` is ${value}. It must be a whole number from 1 to ${MOST_CONCURRENCY}.`,
  )
}
