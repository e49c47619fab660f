/** The processes beside the API: the baseline and the load. */
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Workspace } from '@static/testkit/server/workspace'
import type { Done, Job } from './load.ts'

/** The load generator. */
export interface Load extends Disposable {
  press(job: Job): Promise<Done>
}

/** Starts the load generator. */
export function startLoad(): Load {
  const child = fork(fileURLToPath(import.meta.resolve('./load.ts')))
  return {
    async press(job) {
      child.send(job)
      const done = await answerOf<Done>(child)
      if (done.answers !== job.count) throw new Error(`Only ${done.answers} of ${job.count} requests were answered.`)
      return done
    },
    [Symbol.dispose]: () => void child.kill(),
  }
}

/** The bare server. */
export interface Bare extends Disposable {
  readonly pid: number
  readonly port: number
}

/** Starts the bare server with the bodies that it will return. */
export async function startBare(
  { cert, key }: Workspace,
  gets: Readonly<Record<string, unknown>>,
  posts: Readonly<Record<string, unknown>>,
): Promise<Bare> {
  const child = fork(fileURLToPath(import.meta.resolve('./bare.ts')))
  child.send({ cert, key, gets, posts })
  const { port } = await answerOf<{ port: number }>(child)
  return { pid: child.pid ?? 0, port, [Symbol.dispose]: () => void child.kill() }
}

/** The next message of a child; rejects if the child ends instead. */
function answerOf<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    const gone = (code: number | null): void => reject(new Error(`A helper process ended with ${code}.`))
    child.once('exit', gone)
    child.once('message', (message) => {
      child.off('exit', gone)
      resolve(message as T)
    })
  })
}
