/** The process of an agent: killed, stopped and started again, it goes on where it was. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { programFile } from '@static/testkit/bundle'
import { notesOf, readNotes } from '../history.ts'
import type { Order, Reply, Task } from '../agent/task.ts'
import { Clock } from './clock.ts'
import type { Line } from './line.ts'

const PROGRAM = programFile('chaos-child', join(import.meta.dirname, '../agent/child.ts'))
const PYTHON_PROGRAM = resolve(import.meta.dirname, '../agent/agent.py')
const PYTHON_PACKAGE = resolve(import.meta.dirname, '../../../python')
/** Debian's Python: PATH may find another one first. */
const PYTHON = '/usr/bin/python3'
/** Consecutive starts that did not become ready. */
const MOST_FAILURES = 20

/** An order was not carried out: its code, or `killed`. */
export class OrderFailed extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(`${code}: ${message}`)
    this.code = code
  }
}

/** How to run an agent. */
export interface AgentOptions {
  readonly task: Task
  readonly language: 'typescript' | 'python'
  /** Its lines to the nodes of the relay. */
  readonly lines: readonly Line[]
  /** Its own directory, for everything except its database. */
  readonly directory: string
}

/** Options of a kill. */
export interface KillOptions {
  /**
   * For Python: kill only the driver, which the program notices, or only the program, whose driver then closes in
   * order.
   */
  readonly only?: 'driver' | 'program'
  /** Do not start it again before `start`. */
  readonly stay?: boolean
}

/** The process. */
export class AgentProcess implements AsyncDisposable {
  readonly name: string
  readonly lines: readonly Line[]
  readonly language: AgentOptions['language']
  readonly clock: Clock
  /** Its agent id, from its first start on. */
  id = ''
  isMember = false
  /** Whether it talks while it is a member, even after its next start. */
  isTalking = false
  readonly #options: AgentOptions
  readonly #orders = new Map<number, PromiseWithResolvers<string | null>>()
  #child: ChildProcess | undefined
  #ready = Promise.withResolvers<void>()
  #isReady = false
  #isHeld = false
  #count = 0
  #failures = 0
  #error: Error | undefined

  constructor(options: AgentOptions) {
    this.#options = options
    this.name = options.task.name
    this.lines = options.lines
    this.language = options.language
    this.clock = new Clock(join(options.directory, 'clock'))
    this.#ready.promise.catch(() => {})
  }

  /** Starts it, and restarts it whenever it exits. */
  start(): void {
    this.#isHeld = false
    if (!this.#child && !this.#error) this.#spawn()
  }

  /** Resolves when it runs and has opened its database. Rejects if it cannot. */
  async ready(): Promise<void> {
    while (!this.#isReady) await this.#ready.promise
  }

  /** Resolves with its result; rejects with `OrderFailed`, even if the process exits first. */
  async order(order: Order): Promise<string | null> {
    await this.ready()
    const n = ++this.#count
    const answer = Promise.withResolvers<string | null>()
    this.#orders.set(n, answer)
    this.#child?.stdin?.write(`${JSON.stringify({ n, ...order })}\n`)
    return await answer.promise
  }

  /** kill -9. */
  async kill({ only, stay = false }: KillOptions = {}): Promise<void> {
    const child = this.#child
    if (!child?.pid) return
    const ended = once(child, 'exit')
    if (stay) this.#isHeld = true
    const [driver] = childrenOf(child.pid)
    if (only !== 'driver' || driver === undefined) send('SIGKILL', child.pid)
    if (only !== 'program' && driver !== undefined) send('SIGKILL', driver)
    await ended
  }

  /** Stops all its processes for a while. */
  async freeze(ms: number): Promise<void> {
    const pid = this.#child?.pid
    if (pid === undefined) return
    const all = [pid, ...childrenOf(pid)]
    for (const each of all) send('SIGSTOP', each)
    await delay(ms)
    for (const each of all) send('SIGCONT', each)
  }

  /** The process that has the database. */
  get databasePid(): number | undefined {
    const pid = this.#child?.pid
    return pid === undefined || this.language === 'typescript' ? pid : childrenOf(pid)[0]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill({ stay: true })
  }

  #spawn(): void {
    const { task, directory } = this.#options
    const { PATH, NODE_COMPILE_CACHE } = process.env
    const env = { PATH, NODE_COMPILE_CACHE, TMPDIR: directory, HOME: directory, ...this.clock.env }
    const [program, words, more] =
      this.language === 'typescript'
        ? [process.execPath, [...this.clock.nodeFlags, PROGRAM], {}]
        : [PYTHON, ['-B', PYTHON_PROGRAM], this.#pythonEnv()]
    const child = spawn(program, [...words, JSON.stringify(task)], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...env, ...more },
    })
    this.#child = child
    createInterface({ input: child.stdout }).on('line', (line) => this.#hear(JSON.parse(line) as Reply))
    // Written to a process that was just killed.
    child.stdin.on('error', () => {})
    child.once('exit', () => this.#ended())
  }

  /** Moves the driver's clock as well. */
  #pythonEnv(): Record<string, string> {
    const node = join(this.#options.directory, 'node')
    writeFileSync(node, `#!/bin/sh\nexec ${process.execPath} ${this.clock.nodeFlags.join(' ')} "$@"\n`)
    chmodSync(node, 0o700)
    return { PYTHONPATH: PYTHON_PACKAGE, STATIC_NODE: node }
  }

  #ended(): void {
    this.#child = undefined
    for (const { reject } of this.#orders.values()) reject(new OrderFailed('killed', `${this.name} has ended.`))
    this.#orders.clear()
    if (this.#isReady) this.#ready = Promise.withResolvers()
    this.#ready.promise.catch(() => {})
    this.#isReady = false
    if (++this.#failures > MOST_FAILURES) {
      this.#error = new Error(
        `${this.name} does not start any more: ${notesOf(readNotes(this.#options.task.file), 'died').at(-1)?.why}`,
      )
      this.#ready.reject(this.#error)
    } else if (!this.#isHeld) this.#spawn()
  }

  #hear(reply: Reply): void {
    if ('isMember' in reply) {
      this.isMember = reply.isMember
      if (this.isMember && this.#isReady && this.isTalking) this.order({ order: 'talk' }).catch(() => {})
      return
    }
    if ('ready' in reply) {
      this.#failures = 0
      this.id = reply.ready
      this.#isReady = true
      this.#ready.resolve()
      if (this.isTalking) this.order({ order: 'talk' }).catch(() => {})
      return
    }
    const n = 'done' in reply ? reply.done : reply.failed
    const waiting = this.#orders.get(n)
    this.#orders.delete(n)
    if ('done' in reply) waiting?.resolve(reply.result)
    else waiting?.reject(new OrderFailed(reply.code, reply.message))
  }
}

function send(signal: NodeJS.Signals, pid: number): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It has exited.
  }
}

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}
