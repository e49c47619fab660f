/**
 * Runs Argon2 in threads of low priority. In Node's own pool, where each run takes a core for 15 ms at the priority of
 * the process, a flood of wrong passwords slowed every other request and message by a factor of four on two cores.
 */
import { Worker } from 'node:worker_threads'
import type { HashAnswer, HashResult, HashWork } from './hash-message.ts'

/** Idle threads; started on demand and kept for the life of the process. Callers limit their number. */
const idle: HashThread[] = []

/** Runs Argon2 once. */
export async function runHash<Work extends HashWork>(work: Work): Promise<HashResult<Work>> {
  const thread = idle.pop() ?? new HashThread()
  const answer = await thread.run(work)
  idle.push(thread)
  if ('failure' in answer) throw new Error(`Argon2 failed: ${answer.failure}`)
  return answer.value as HashResult<Work>
}

class HashThread {
  readonly #worker: Worker
  #running: PromiseWithResolvers<HashAnswer> | undefined

  constructor() {
    this.#worker = new Worker(new URL('./hash-worker.ts', import.meta.url))
    this.#worker.on('message', (answer: HashAnswer) => {
      // An idle thread does not keep the process alive.
      this.#worker.unref()
      this.#running?.resolve(answer)
      this.#running = undefined
    })
    this.#worker.on('error', (error) => this.#die(error))
    this.#worker.on('exit', (code) => this.#die(code))
  }

  /** Only one run at a time. */
  run(work: HashWork): Promise<HashAnswer> {
    this.#running = Promise.withResolvers()
    this.#worker.ref()
    this.#worker.postMessage(work, [])
    return this.#running.promise
  }

  /** The next run gets another thread. */
  #die(cause: unknown): void {
    const at = idle.indexOf(this)
    if (at !== -1) idle.splice(at, 1)
    this.#running?.reject(new Error('The thread that checks secrets has died.', { cause }))
    this.#running = undefined
  }
}
