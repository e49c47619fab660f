/** The nodes of the bench, each in its own process. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { cpuMs } from '../api/processor.ts'
import type { Appends, NodeAsk, NodeTold, Place } from './messages.ts'

/** A running node. It takes one question at a time. */
export interface StoreNode extends AsyncDisposable {
  create(channels: readonly string[]): Promise<void>
  found(channel: string, members: readonly string[]): Promise<void>
  append(appends: Appends): Promise<Extract<NodeTold, { type: 'appended' }>>
}

/** Starts a node; fulfilled when its store is open. */
export async function startNode(place: Place): Promise<StoreNode> {
  const child = fork(join(import.meta.dirname, 'node.ts'), [JSON.stringify(place)])
  const exit = once(child, 'exit')
  const next = async <Type extends NodeTold['type']>(type: Type): Promise<Extract<NodeTold, { type: Type }>> => {
    const [told] = (await Promise.race([once(child, 'message'), exit])) as [NodeTold | number | null]
    if (told === null || typeof told === 'number') throw new Error(`The node ended with ${told}.`)
    if (told.type !== type) throw new Error(`Unexpected answer: ${told.type}`)
    return told as never
  }
  const ask = (question: NodeAsk): void => void child.send(question)
  await next('ready')
  return {
    create: async (channels) => {
      ask({ type: 'create', channels })
      await next('done')
    },
    found: async (channel, members) => {
      ask({ type: 'found', channel, members })
      await next('done')
    },
    append: (appends) => {
      ask({ type: 'append', ...appends })
      return next('appended')
    },
    [Symbol.asyncDispose]: async () => {
      if (child.connected) child.disconnect()
      await exit
    },
  }
}

/**
 * CPU milliseconds of all processes of servers, given the first process of each. Ended ones count with their parent.
 */
export function serverCpuMs(parents: readonly number[]): number {
  let sum = 0
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    if (Number.isNaN(pid)) continue
    try {
      const parent = Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[1])
      if (parents.includes(pid) || parents.includes(parent)) sum += cpuMs(pid)
    } catch {
      // It has ended.
    }
  }
  return sum
}
