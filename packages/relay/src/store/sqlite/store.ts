/**
 * The default engine: SQLite in its own thread, so that a flush to disk blocks nothing else. Calls within one tick are
 * sent together and answered together once they are durable.
 */
import { Worker } from 'node:worker_threads'
import { StaticError } from '@static/protocol'
import type {
  Deployment,
  Durability,
  StoreRequest,
  StoreResult,
  Retention,
  Store,
  StoreCensus,
  StoreListener,
  StoreOperation,
} from '../../ports.ts'
import type { Call } from '../call.ts'
import {
  type FromWorker,
  type ToWorker,
  type WorkerOptions,
  packCalls,
  unpackAnswers,
} from './thread/worker-messages.ts'

/** Options of a store in a file. */
export interface SqliteStoreOptions {
  readonly path: string
  readonly retention: Retention
  /** Called once if the thread dies, which makes the store unusable. */
  readonly onDeath?: (error: StaticError) => void
  /** Called for each transaction with the time taken by its commit, including the flush to disk. */
  readonly onCommit?: ((milliseconds: number) => void) | undefined
  /** The thread's module, and its data besides the path and the retention. */
  readonly worker?: { readonly module: URL; readonly data: object }
}

/** A store in a file. */
export interface SqliteStore extends Store {
  backup(path: string): Promise<void>
  /** Number of transactions; many operations share one. */
  readonly transactions: number
}

const WORKER = { module: new URL('./thread/worker.ts', import.meta.url), data: {} }

/**
 * Opens or creates the file. Throws `store_locked` if another process has it open, `store_corrupt` if it is not a
 * database of this version, `unavailable` if it cannot be opened at all.
 */
export async function openSqliteStore(options: SqliteStoreOptions, listener: StoreListener): Promise<SqliteStore> {
  const { path, retention, worker: { module, data } = WORKER } = options
  const workerData: WorkerOptions = { path, retention, ...data }
  const worker = new Worker(module, { workerData })
  const first = await new Promise<FromWorker>((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
  if (first.type === 'unable') throw StaticError.of(first.code, first.message)
  if (first.type !== 'ready') throw StaticError.of('internal_error', `The store thread sent ${first.type}, not ready.`)
  return new WorkerStore(worker, first.deployment, listener, options)
}

interface Waiting {
  readonly call: Call
  readonly resolve: (result: object) => void
  readonly reject: (error: StaticError) => void
}

/** The calling side. */
class WorkerStore implements SqliteStore {
  readonly deployment: Deployment
  readonly #worker: Worker
  readonly #listener: StoreListener
  readonly #options: Pick<SqliteStoreOptions, 'onDeath' | 'onCommit'>
  /** Not sent yet: more may follow in this tick. */
  #unsent: Waiting[] = []
  /** Sent calls, in the order of their answers. */
  readonly #waiting: Waiting[] = []
  /** By the path of the copy. */
  readonly #backups = new Map<string, PromiseWithResolvers<void>>()
  readonly #exited: Promise<void>
  #failure: StaticError | undefined
  #healthy = true
  #transactions = 0
  #census: StoreCensus | undefined

  constructor(
    worker: Worker,
    deployment: Deployment,
    listener: StoreListener,
    options: Pick<SqliteStoreOptions, 'onDeath' | 'onCommit'>,
  ) {
    this.deployment = deployment
    this.#worker = worker
    this.#listener = listener
    this.#options = options
    worker.on('message', (message: FromWorker) => this.#take(message))
    worker.on('error', (error) => this.#die(error))
    this.#exited = new Promise((resolve) => {
      worker.once('exit', () => {
        this.#die(undefined)
        resolve()
      })
    })
  }

  get transactions(): number {
    return this.#transactions
  }

  run<Name extends StoreOperation>(name: Name, request: StoreRequest<Name>): Promise<StoreResult<Name>> {
    if (this.#failure) return Promise.reject(this.#failure)
    return new Promise((resolve, reject) => {
      if (this.#unsent.length === 0) queueMicrotask(() => this.#send())
      const call = { name, request } as unknown as Call
      this.#unsent.push({ call, resolve: resolve as Waiting['resolve'], reject })
    })
  }

  healthy(): boolean {
    return this.#healthy && this.#failure === undefined
  }

  durability(): Durability {
    return 'fsync'
  }

  census(): StoreCensus | undefined {
    return this.#census
  }

  backup(path: string): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure)
    const copied = Promise.withResolvers<void>()
    this.#backups.set(path, copied)
    // After the calls of this tick.
    this.#send()
    this.#post({ type: 'backup', path })
    return copied.promise
  }

  close(): Promise<void> {
    if (!this.#failure) {
      this.#send()
      this.#post({ type: 'close' })
      this.#failure = StaticError.of('closed', 'The store is closed.')
    }
    return this.#exited
  }

  #send(): void {
    if (this.#unsent.length === 0) return
    const parcel = packCalls(this.#unsent.map(({ call }) => call))
    for (const call of this.#unsent) this.#waiting.push(call)
    this.#unsent = []
    this.#post({ type: 'calls', parcel }, [parcel.bytes])
  }

  #post(message: ToWorker, transfer: ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, transfer)
  }

  #take(message: FromWorker): void {
    if (message.type === 'copied') {
      const { path, failed } = message
      const copied = this.#backups.get(path)
      this.#backups.delete(path)
      if (failed === undefined) copied?.resolve()
      else copied?.reject(StaticError.of('unavailable', `The backup to ${path} failed (${failed}).`))
      return
    }
    if (message.type === 'census') this.#census = message.census
    if (message.type !== 'answers') return
    this.#healthy = message.healthy
    this.#transactions += message.transactions
    for (const milliseconds of message.commitMs) this.#options.onCommit?.(milliseconds)
    const answered = this.#waiting.splice(0, message.parcel.items.length)
    const answers = unpackAnswers(
      message.parcel,
      answered.map(({ call }) => call),
    )
    for (const [at, { resolve, reject }] of answered.entries()) {
      const answer = answers[at]
      if (!answer || 'failed' in answer) reject(unavailable(new Error(answer?.failed)))
      else {
        for (const event of answer.events) this.#listener(event)
        resolve(answer.result)
      }
    }
  }

  /** The thread has ended: rejects all pending and all later calls. */
  #die(cause: unknown): void {
    const died = this.#failure === undefined
    const failure = (this.#failure ??= unavailable(cause))
    const waiting = [...this.#waiting.splice(0), ...this.#unsent.splice(0), ...this.#backups.values()]
    this.#backups.clear()
    for (const { reject } of waiting) reject(failure)
    if (died) this.#options.onDeath?.(failure)
  }
}

function unavailable(cause: unknown): StaticError {
  return StaticError.of('unavailable', 'The relay cannot use its store. Retry later.', { cause })
}
