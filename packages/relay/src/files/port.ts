/**
 * The port of files as the relay's thread sees it. A thread that dies is started again on the same port; its transfers
 * are lost, and their agents repeat them.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { StaticError } from '@static/protocol'
import type { Certificate, DueFile, FilesPlace, PartAnswer, PartGate, Time } from '../ports.ts'
import type { FilesCall, FilesCounts, FilesThreadOptions, FromFilesThread, ToFilesThread } from './thread-messages.ts'

const MODULE = new URL('./thread.ts', import.meta.url)
const RESTART_MS = 1000
/** A thread that hangs is terminated after this time. */
const STOP_MS = 8000
const NONE: FilesCounts = { stored: { parts: 0, bytes: 0 }, sent: { parts: 0, bytes: 0 }, bodies: 0, ousted: 0 }

/** Options of the port. */
export interface FilesPortOptions extends FilesThreadOptions {
  readonly gate: PartGate
  /** Receives failures, as texts. */
  readonly failed: (message: string) => void
}

/** An open port, and its thread. */
export class FilesPort {
  readonly #options: FilesPortOptions
  #thread: FilesThreadOptions
  #worker: Worker | undefined
  #isNearlyFull = false
  #isServing = false
  #stopping = false
  #lastId = 0
  #lastCall = 0
  #counts = NONE
  /** Transfers of the thread, by its numbers: a new thread counts from the start. */
  #transfers = new Map<number, number>()
  readonly #calls = new Map<number, PromiseWithResolvers<readonly string[]>>()

  private constructor(options: FilesPortOptions) {
    const { store, host, port, proxyProtocolFrom, proxyCa, bytesPerSecond, certificate, namedCertificate } = options
    const certificates = { certificate: pem(certificate), namedCertificate: pem(namedCertificate) }
    this.#options = options
    this.#thread = { store, host, port, proxyProtocolFrom, proxyCa, bytesPerSecond, ...certificates }
  }

  /** Resolves when the port is served. Throws what keeps it from being so. */
  static async open(options: FilesPortOptions): Promise<FilesPort> {
    const port = new FilesPort(options)
    await port.#start()
    return port
  }

  get port(): number {
    return this.#thread.port
  }

  get place(): FilesPlace {
    if (!this.#isServing) return 'none'
    return this.#isNearlyFull ? 'full' : 'open'
  }

  get counts(): FilesCounts {
    return this.#counts
  }

  async delete(files: readonly DueFile[]): Promise<void> {
    await this.#call({ name: 'delete', files })
  }

  /** Some of the files that have parts, in order, and have not changed since a time. */
  list(after: string, before: Time): Promise<readonly string[]> {
    return this.#call({ name: 'list', after, before })
  }

  renew(certificate: Certificate, namedCertificate: Certificate): void {
    const certificates = { certificate: pem(certificate), namedCertificate: pem(namedCertificate) }
    this.#thread = { ...this.#thread, ...certificates }
    this.#post({ type: 'renew', ...certificates })
  }

  async close(): Promise<void> {
    this.#stopping = true
    const worker = this.#worker
    if (!worker) return
    const exited = new Promise((resolve) => worker.once('exit', resolve))
    this.#post({ type: 'close' })
    const late = setTimeout(() => void worker.terminate(), STOP_MS)
    await exited
    clearTimeout(late)
  }

  async #start(): Promise<void> {
    const worker = new Worker(MODULE, { workerData: this.#thread })
    const started = Promise.withResolvers<void>()
    this.#worker = worker
    worker.on('message', (message: FromFilesThread) => {
      if (message.type === 'unable') started.reject(StaticError.of(message.code, message.message))
      else this.#take(message, started.resolve)
    })
    worker.on('error', (error) => {
      this.#options.failed(String(error))
      started.reject(StaticError.of('unavailable', 'The thread of files has died.', { cause: error }))
    })
    worker.once('exit', () => this.#exited())
    await started.promise
  }

  #take(message: Exclude<FromFilesThread, { type: 'unable' }>, listening: () => void): void {
    switch (message.type) {
      case 'listening':
        this.#thread = { ...this.#thread, port: message.port }
        this.#isServing = true
        return listening()
      case 'space':
        this.#isNearlyFull = message.isNearlyFull
        return
      case 'moved':
        this.#counts = message.counts
        return
      case 'failed':
        return this.#options.failed(message.message)
      case 'called': {
        const called = this.#calls.get(message.call)
        this.#calls.delete(message.call)
        if (message.failed === undefined) called?.resolve(message.keys)
        else called?.reject(new Error(message.failed))
        return
      }
      case 'ask':
        return this.#ask(message)
      case 'stored': {
        const { id, checksum } = message
        const own = this.#transfers.get(id)
        if (own !== undefined)
          void this.#options.gate.store(own, checksum).then((answer) => this.#answer(id, own, answer))
        return
      }
      case 'over': {
        const own = this.#transfers.get(message.id)
        this.#transfers.delete(message.id)
        if (own !== undefined) this.#options.gate.over(own)
      }
    }
  }

  #ask({ id, ask }: Extract<FromFilesThread, { type: 'ask' }>): void {
    const own = ++this.#lastId
    this.#transfers.set(id, own)
    void this.#options.gate.ask(own, ask).then((answer) => {
      // The thread may have died meanwhile, and then no one ends the transfer.
      if (this.#transfers.get(id) !== own) return answer.type === 'go' ? this.#options.gate.over(own) : undefined
      if (answer.type === 'refused') this.#transfers.delete(id)
      this.#post({ type: 'answer', id, answer })
    })
  }

  #answer(id: number, own: number, answer: PartAnswer): void {
    if (this.#transfers.get(id) === own) this.#post({ type: 'answer', id, answer })
  }

  #call(what: FilesCall): Promise<readonly string[]> {
    if (!this.#isServing) return Promise.reject(new Error('the thread of files is not running'))
    const call = ++this.#lastCall
    const called = Promise.withResolvers<readonly string[]>()
    this.#calls.set(call, called)
    this.#post({ type: 'call', call, what })
    return called.promise
  }

  #post(message: ToFilesThread): void {
    this.#worker?.postMessage(message, [])
  }

  #exited(): void {
    const wasServing = this.#isServing
    this.#isServing = false
    this.#worker = undefined
    for (const own of this.#transfers.values()) this.#options.gate.over(own)
    this.#transfers = new Map()
    for (const { reject } of this.#calls.values()) reject(new Error('the thread of files has ended'))
    this.#calls.clear()
    if (wasServing && !this.#stopping) void this.#restart()
  }

  async #restart(): Promise<void> {
    while (!this.#stopping) {
      await delay(RESTART_MS)
      try {
        await this.#start()
        return
      } catch (error) {
        this.#options.failed(String(error))
      }
    }
  }
}

/** Only what can be sent to a thread. */
function pem({ cert, key }: Certificate): Certificate {
  return { cert, key }
}
