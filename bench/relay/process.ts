/** The servers of the bench, each in its own process. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Question, Ready, Use } from './messages.ts'

/** A running server. */
export interface Server extends AsyncDisposable {
  readonly ready: Ready
  /** A token that the relay accepts. */
  readonly token: string
  ask(question: Question): void
  use(): Promise<Use>
  /** Kills it, as `kill -9` would. */
  kill(): Promise<void>
}

const FILES = {
  server: join(import.meta.dirname, 'server.ts'),
  floor: join(import.meta.dirname, 'floor.ts'),
}

/** Starts the relay or the floor. */
export async function startProcess(
  file: 'server' | 'floor',
  options: object,
  nodeFlags: string[] = [],
): Promise<Server> {
  const child: ChildProcess = fork(FILES[file], [JSON.stringify(options)], {
    execArgv: nodeFlags,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const [first] = (await once(child, 'message')) as [{ ready: Ready; token: string }]
  return {
    ...first,
    ask: (question) => void child.send(question),
    use: async () => {
      child.send({ type: 'use' })
      const [use] = (await once(child, 'message')) as [Use]
      return use
    },
    kill: async () => {
      const exit = once(child, 'exit')
      child.kill('SIGKILL')
      await exit
    },
    [Symbol.asyncDispose]: async () => {
      const exit = once(child, 'exit')
      child.disconnect()
      await exit
    },
  }
}
