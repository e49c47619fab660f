/** The port of files of a proxy, as its main thread sees it. A thread that dies is started again on the same port. */
import { setTimeout as delay } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { StaticError } from '@static/protocol'
import type { OpenSessionResponse } from '@static/protocol/relay'
import type { Certificate } from '../ports.ts'
import type { ForwardingOptions, FromForwarding, ToForwarding } from './files-thread.ts'

const MODULE = new URL('./files-thread.ts', import.meta.url)
const RESTART_MS = 1000
/** A thread that hangs is terminated after this time. */
const STOP_MS = 8000

/** What agents learn of the ports of a proxy. */
export interface ProxyPorts {
  readonly grpc: number
  /** 0 if it forwards no files. */
  readonly files: number
  /** In place of the port, if not empty. */
  readonly filesUrl: string
}

/** Names the proxy's own ports in place of the relay's: agents cannot reach these at this host. */
export function announce(opened: OpenSessionResponse, { grpc, files, filesUrl }: ProxyPorts): void {
  const hasFiles = opened.filesPort !== 0 || opened.filesUrl !== ''
  opened.grpcPort = grpc
  opened.filesPort = hasFiles ? files : 0
  opened.filesUrl = hasFiles && files !== 0 ? filesUrl : ''
}

export class ProxyFiles {
  readonly #failed: (reason: string) => void
  #options: ForwardingOptions
  #worker: Worker | undefined
  #isOpen = false
  #stopping = false

  private constructor(options: ForwardingOptions, failed: (reason: string) => void) {
    this.#options = options
    this.#failed = failed
  }

  /** Resolves when the port is open. Throws `connection_error` if it is in use. */
  static async open(options: ForwardingOptions, failed: (reason: string) => void): Promise<ProxyFiles> {
    const files = new ProxyFiles(options, failed)
    await files.#start()
    return files
  }

  /** 0 while it is closed. */
  get port(): number {
    return this.#isOpen ? this.#options.port : 0
  }

  renew({ cert, key }: Certificate): void {
    this.#options = { ...this.#options, certificate: { cert, key } }
    this.#post({ type: 'renew', certificate: { cert, key } })
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
    const worker = new Worker(MODULE, { workerData: this.#options })
    const started = Promise.withResolvers<void>()
    this.#worker = worker
    worker.on('message', (message: FromForwarding) => {
      if (message.type === 'unable') started.reject(StaticError.of(message.code, message.message))
      else if (message.type === 'failed') this.#failed(message.message)
      else {
        this.#options = { ...this.#options, port: message.port }
        this.#isOpen = true
        started.resolve()
      }
    })
    worker.on('error', (error) => {
      this.#failed(String(error))
      started.reject(StaticError.of('unavailable', 'The thread of files has died.', { cause: error }))
    })
    worker.once('exit', () => {
      const wasOpen = this.#isOpen
      this.#isOpen = false
      this.#worker = undefined
      if (wasOpen && !this.#stopping) void this.#restart()
    })
    await started.promise
  }

  async #restart(): Promise<void> {
    while (!this.#stopping) {
      await delay(RESTART_MS)
      try {
        await this.#start()
        return
      } catch (error) {
        this.#failed(String(error))
      }
    }
  }

  #post(message: ToForwarding): void {
    this.#worker?.postMessage(message, [])
  }
}
