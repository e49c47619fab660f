/** The agents of the bench in Python, as processes with the same interface as those in TypeScript. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import type { Told } from '../agent/messages.ts'
import type { AgentProcess } from '../agent/process.ts'

const SDK = resolve(import.meta.dirname, '../../python')

/** Starts an agent; fulfilled when it is connected. */
export async function startPythonAgent(options: object): Promise<AgentProcess> {
  const child = spawn('/usr/bin/python3', ['-B', join(import.meta.dirname, 'child.py')], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, PYTHONPATH: SDK },
  })
  const exit = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const ask = async (question: object): Promise<Told> => {
    child.stdin.write(`${JSON.stringify(question)}\n`)
    const line = await lines.next()
    if (line.done) throw new Error('The agent in Python has ended.')
    return JSON.parse(line.value) as Told
  }
  await ask(options)
  return {
    pid: child.pid ?? 0,
    ask: async (question, type) => {
      const told = await ask(question)
      if (told.type !== type) throw new Error(`Unexpected answer: ${told.type}`)
      return told as never
    },
    [Symbol.asyncDispose]: async () => {
      child.stdin.end()
      await exit
    },
  }
}
