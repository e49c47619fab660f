/** SLIM's native library as the bench sees it: one node, and groups with the same interface as ours. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { quietPort } from '@static/testkit/ports'
import type { Workspace } from '@static/testkit/server/workspace'
import type { Told } from '../../agent/messages.ts'
import type { AgentProcess } from '../../agent/process.ts'
import type { Peer } from '../slim/peer.ts'
import type { Native } from './install.ts'

/** A process that does not exit when asked. */
const STUCK_MS = 5000

/** Starts its node. With `store`, a directory, its apps keep the keys of their sessions there. */
export async function startNativePeer(
  { nameCertFile: cert, nameKeyFile: key, caFile: ca }: Workspace,
  native: Native,
  { shim, store }: { readonly shim: string; readonly store?: string },
): Promise<Peer> {
  const port = await quietPort()
  const start = (role: string, options: object): Promise<AgentProcess> => startProcess(native, shim, role, options)
  const node = await start('node', { port, cert, key })
  return {
    version: '3.3.8',
    async group(group, members) {
      const options = { port, ca, group, members, store, loops: native.loops }
      const receivers = await start('members', options)
      const sender = await start('sender', options)
      return {
        sender,
        receivers: [receivers],
        [Symbol.asyncDispose]: async () => {
          await sender[Symbol.asyncDispose]()
          await receivers[Symbol.asyncDispose]()
        },
      }
    },
    [Symbol.asyncDispose]: () => node[Symbol.asyncDispose](),
  }
}

async function startProcess(
  { python, packages }: Native,
  shim: string,
  role: string,
  options: object,
): Promise<AgentProcess> {
  const child = spawn(python, ['-B', join(import.meta.dirname, 'peer.py'), role, JSON.stringify(options)], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, LD_PRELOAD: shim, PYTHONPATH: packages },
  })
  const exit = once(child, 'exit')
  const waiting: ((told: Told) => void)[] = []
  createInterface({ input: child.stdout }).on('line', (line) => {
    // Its library prints lines of its own.
    if (line.startsWith('{"type"')) waiting.shift()?.(JSON.parse(line) as Told)
  })
  const next = async (): Promise<Told> => {
    const message = Promise.withResolvers<Told>()
    waiting.push(message.resolve)
    const told = await Promise.race([message.promise, exit])
    if (Array.isArray(told)) throw new Error(`The peer ended with ${told[0]}.`)
    return told
  }
  await next()
  return {
    pid: child.pid ?? 0,
    ask: async (ask, type) => {
      const answer = next()
      child.stdin.write(`${JSON.stringify(ask)}\n`)
      const told = await answer
      if (told.type !== type) throw new Error(told.type === 'failed' ? told.message : `Unexpected answer: ${told.type}`)
      return told as never
    },
    [Symbol.asyncDispose]: async () => {
      child.stdin.end()
      const timer = setTimeout(() => child.kill('SIGKILL'), STUCK_MS)
      await exit
      clearTimeout(timer)
    },
  }
}
