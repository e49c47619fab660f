/** The agents of the bench, each in its own process. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Ask, Told } from './messages.ts'

/** A running agent. It takes one question at a time. */
export interface AgentProcess extends AsyncDisposable {
  readonly pid: number
  ask<Type extends Told['type']>(ask: Ask, type: Type): Promise<Extract<Told, { type: Type }>>
}

/** Starts an agent; fulfilled when it is connected. */
export function startAgent(options: object, nodeFlags: readonly string[] = []): Promise<AgentProcess> {
  return startChild(join(import.meta.dirname, 'child.ts'), options, { nodeFlags })
}

/** Starts a program that answers as `serve` does; fulfilled when it is ready. */
export async function startChild(
  file: string,
  options: object,
  { nodeFlags = [], env = {} }: { readonly nodeFlags?: readonly string[]; readonly env?: Record<string, string> } = {},
): Promise<AgentProcess> {
  const child = fork(file, [JSON.stringify(options)], { execArgv: [...nodeFlags], env: { ...process.env, ...env } })
  const exit = once(child, 'exit')
  const next = async (): Promise<Told> => {
    const message = Promise.withResolvers<Told>()
    child.once('message', (told: Told) => message.resolve(told))
    const told = await Promise.race([message.promise, exit])
    if (Array.isArray(told)) throw new Error(`The agent ended with ${told[0]}.`)
    return told
  }
  await next()
  return {
    pid: child.pid ?? 0,
    ask: async (ask, type) => {
      child.send(ask)
      const told = await next()
      if (told.type !== type) throw new Error(told.type === 'failed' ? told.message : `Unexpected answer: ${told.type}`)
      return told as never
    },
    [Symbol.asyncDispose]: async () => {
      child.disconnect()
      await exit
    },
  }
}
