/** The thread of the port of files. It moves bytes; the relay's thread decides about each part. */
import { isMainThread, type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { StaticError } from '@static/protocol'
import type { PartAnswer, PartGate, Parts } from '../ports.ts'
import { openParts } from './open-parts.ts'
import { type FilesServer, startFilesServer } from './server.ts'
import type { FilesCall, FilesThreadOptions, FromFilesThread, ToFilesThread } from './thread-messages.ts'

/** How often the free space is looked at, and the counts are passed on. */
const LOOK_MS = 5000
/** Files named in one answer: the rest comes with the next call. */
const MAX_LISTED = 1000

class FilesThread implements PartGate {
  readonly #port: MessagePort
  readonly #parts: Parts
  readonly #waiting = new Map<number, (answer: PartAnswer) => void>()
  readonly #timers: NodeJS.Timeout[] = []
  #server: FilesServer | undefined

  constructor(port: MessagePort, parts: Parts) {
    this.#port = port
    this.#parts = parts
  }

  async start(options: FilesThreadOptions): Promise<void> {
    await this.#look()
    const server = await startFilesServer({
      ...options,
      parts: this.#parts,
      gate: this,
      monotonic: () => performance.now(),
      failed: (error) => this.#failed(error),
    })
    this.#server = server
    const look = (): void => {
      this.#look().catch((error: unknown) => this.#failed(error))
      this.#say({ type: 'moved', counts: server.transfers.counts })
    }
    this.#timers.push(setInterval(look, LOOK_MS))
    this.#say({ type: 'listening', port: server.port })
  }

  take(message: ToFilesThread): void {
    switch (message.type) {
      case 'answer':
        this.#waiting.get(message.id)?.(message.answer)
        this.#waiting.delete(message.id)
        return
      case 'call':
        void this.#call(message.call, message.what)
        return
      case 'renew':
        try {
          this.#server?.renew(message.certificate, message.namedCertificate)
        } catch (error) {
          this.#failed(error)
        }
        return
      case 'close':
        for (const timer of this.#timers) clearInterval(timer)
        void this.#server?.stop().finally(() => this.#port.close())
    }
  }

  ask(id: number, ask: Parameters<PartGate['ask']>[1]): Promise<PartAnswer> {
    return this.#answered({ type: 'ask', id, ask })
  }

  store(id: number, checksum: number): Promise<PartAnswer> {
    return this.#answered({ type: 'stored', id, checksum })
  }

  over(id: number): void {
    this.#say({ type: 'over', id })
  }

  #answered(message: Extract<FromFilesThread, { type: 'ask' | 'stored' }>): Promise<PartAnswer> {
    return new Promise((resolve) => {
      this.#waiting.set(message.id, resolve)
      this.#say(message)
    })
  }

  async #call(call: number, what: FilesCall): Promise<void> {
    const keys: string[] = []
    try {
      if (what.name === 'delete') for (const { key, parts } of what.files) await this.#parts.delete(key, parts)
      else {
        for await (const { key, changedAt } of this.#parts.list(what.after)) {
          if (changedAt < what.before) keys.push(key)
          if (keys.length === MAX_LISTED) break
        }
      }
      this.#say({ type: 'called', call, keys })
    } catch (error) {
      this.#say({ type: 'called', call, keys: [], failed: textOf(error) })
    }
  }

  async #look(): Promise<void> {
    this.#say({ type: 'space', isNearlyFull: await this.#parts.isNearlyFull() })
  }

  #failed(error: unknown): void {
    this.#say({ type: 'failed', message: textOf(error) })
  }

  #say(message: FromFilesThread): void {
    this.#port.postMessage(message, [])
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

if (!isMainThread && parentPort) {
  const port = parentPort
  const options = workerData as FilesThreadOptions
  try {
    const failed = (error: unknown): void =>
      port.postMessage({ type: 'failed', message: textOf(error) } satisfies FromFilesThread, [])
    const thread = new FilesThread(port, await openParts(options.store, failed))
    port.on('message', (message: ToFilesThread) => thread.take(message))
    await thread.start(options)
  } catch (error) {
    const { code, message } = StaticError.from(error)
    const unable =
      code === 'internal_error' ? { code: 'unavailable' as const, message: textOf(error) } : { code, message }
    port.postMessage({ type: 'unable', ...unable } satisfies FromFilesThread, [])
    port.close()
  }
}
