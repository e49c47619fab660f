/** Channel managers, each in its own process. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { programFile } from '@static/testkit/bundle'
import type { ClientOptions } from '@static/sdk'
import type { Actions } from './manager-child.ts'

const MAIN = programFile('manager-child', join(import.meta.dirname, 'manager-child.ts'))

/** An error reported by the process of a manager. */
export class ManagerError extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(`${code}: ${message}`)
    this.code = code
  }
}

interface Told {
  readonly id?: number
  readonly result?: unknown
  readonly code?: string
  readonly message?: string
  readonly added?: readonly string[]
}

/** A manager's process. */
export class ManagerProcess implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #calls = new Map<number, PromiseWithResolvers<unknown>>()
  readonly #additions: { readonly agent: string; resolve(): void }[] = []
  readonly #added = new Set<string>()
  readonly #ended: Promise<unknown>
  #count = 0

  private constructor(child: ChildProcess) {
    this.#child = child
    child.on('message', (told: Told) => this.#hear(told))
    this.#ended = once(child, 'exit').then(() => {
      for (const { reject } of this.#calls.values()) reject(new ManagerError('killed', 'The process has ended.'))
    })
  }

  /** Starts it and connects. Files that it leaves behind when killed are in `directory`. */
  static async start(directory: string, options: ClientOptions): Promise<ManagerProcess> {
    const { PATH, NODE_COMPILE_CACHE } = process.env
    const started = new ManagerProcess(fork(MAIN, { env: { PATH, NODE_COMPILE_CACHE, TMPDIR: directory } }))
    await started.call('connect', options)
    return started
  }

  /** Calls an action; rejects with a `ManagerError`, also if the process exits first. */
  async call<Name extends keyof Actions>(
    action: Name,
    ...args: Parameters<Actions[Name]>
  ): Promise<Awaited<ReturnType<Actions[Name]>>> {
    const id = ++this.#count
    const answer = Promise.withResolvers<unknown>()
    this.#calls.set(id, answer)
    this.#child.send({ id, action, args })
    return (await answer.promise) as Awaited<ReturnType<Actions[Name]>>
  }

  /** Resolves when an agent was added to a channel of this manager. */
  async hasAdded(agent: string): Promise<void> {
    if (this.#added.has(agent)) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#additions.push({ agent, resolve })
    await promise
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name)
  }

  /** Resolves when the process has exited. */
  async ended(): Promise<void> {
    await this.#ended
  }

  /** kill -9. */
  async kill(): Promise<void> {
    this.signal('SIGKILL')
    await this.#ended
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
  }

  #hear({ id, result, code, message = '', added }: Told): void {
    for (const agent of added ?? []) {
      this.#added.add(agent)
      for (const waiting of this.#additions) if (waiting.agent === agent) waiting.resolve()
    }
    const call = id === undefined ? undefined : this.#calls.get(id)
    if (id === undefined || !call) return
    this.#calls.delete(id)
    if (code === undefined) call.resolve(result)
    else call.reject(new ManagerError(code, message))
  }
}
