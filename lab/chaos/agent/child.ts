/** An agent in its own process, which the machine kills, stops and cuts off. Its last argument is its task. */
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { type AgentEvent, StaticChannelManager, StaticError } from '@static/sdk'
import { randomBelow } from '@static/testkit/random'
import { Journal } from './journal.ts'
import { Stay } from './stay.ts'
import type { Order, Reply, Task } from './task.ts'

/** How often it tries to open a database that a killed process may still hold. */
const MOST_TRIES = 100
/** Events that the checker does not need. */
const DULL = new Set<AgentEvent['type']>(['connected', 'disconnected', 'receipt', 'waiting', 'lagging', 'throttled'])

const task = JSON.parse(process.argv.at(-1) ?? '{}') as Task
const journal = new Journal(task.file)
let { count, isMember } = journal.memory
// Each life makes different choices.
const below = randomBelow(task.seed + count)

/** Exits on an unhandled failure or a failed store; the machine starts the agent again. */
function die(error: unknown): never {
  journal.note({
    is: 'died',
    why: error instanceof Error ? `${StaticError.from(error).code}: ${error.message}` : String(error),
  })
  process.exit(3)
}
process.on('uncaughtException', die)
process.on('unhandledRejection', die)

async function open(): Promise<StaticChannelManager> {
  for (let tries = 1; ; tries++) {
    try {
      return await StaticChannelManager.connect({ ...task.options, wait: true })
    } catch (error) {
      if (StaticError.from(error).code !== 'store_locked' || tries === MOST_TRIES) throw error
      await delay(100)
    }
  }
}

const manager = await open()
const { client } = manager
const self = client.agentId
let stay: Stay | undefined
/** Whether the stay has ended without an order: an earlier life was about to leave. */
let isClosed = false

/** Starts to work as a member. */
function enter(invite: string): void {
  if (stay) return
  if (!isMember) journal.note({ is: 'joined', invite })
  isMember = true
  reply({ isMember })
  stay = new Stay(client.channel(task.channel), journal, { ...task, below, self }, () => ++count)
  isClosed = false
  stay.ended.then((why) => {
    if (why === 'closed') isClosed = true
    else leave(why)
  }, die)
}

function leave(why: string): void {
  if (isMember) journal.note({ is: 'out', why })
  isMember = false
  reply({ isMember })
  stay = undefined
  journal.forget()
}

function hasChannel(): boolean {
  return client.channels().some(({ name }) => name === task.channel)
}

async function obey(order: Order): Promise<string | undefined> {
  switch (order.order) {
    case 'create':
      await manager.create(task.channel)
      enter('own')
      return
    case 'invite': {
      const { invite, uses, admit } = order
      journal.note({ is: 'invited', invite, uses })
      return await manager.invite(task.channel, { maxUses: uses, admit })
    }
    case 'join': {
      const { invite, token, timeout } = order
      if (isMember) return
      journal.note({ is: 'joining', invite })
      await manager.joinWithToken(task.channel, token, timeout)
      enter(invite)
      return
    }
    case 'leave':
      await client.channel(task.channel).leave()
      leave('left')
      return
    case 'rotate':
      await client.channel(task.channel).rotate()
      return
    case 'remove':
      await client.channel(task.channel).removeMember(order.agent)
      journal.note({ is: 'removed', agent: order.agent })
      return
    case 'transfer':
      await client.channel(task.channel).transfer(order.agent)
      return
    case 'take over':
      await client.channel(task.channel).catchUp()
      await client.channel(task.channel).takeOver()
      return
    case 'talk':
      stay?.talk()
      return
    case 'hush':
      await stay?.hush()
      return
    case 'pace':
      if (stay) stay.paceMs = order.ms
      return
    case 'verify': {
      const channel = client.channel(task.channel)
      await channel.catchUp()
      const members = channel.members().map(({ agentId }) => agentId)
      journal.note({ is: 'words', words: channel.verify(), members })
      return channel.verify()
    }
    default:
      return order satisfies never
  }
}

function reply(line: Reply): void {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

async function listen(): Promise<void> {
  for await (const event of client.events()) {
    if (DULL.has(event.type)) continue
    const { type: name, ...rest } = event
    journal.note({ is: 'event', name, detail: JSON.stringify(rest) })
  }
}

/** A join or a leave that was interrupted, or took too long, goes on by itself. */
function look(): void {
  if (isMember && isClosed && !hasChannel()) leave('left')
  const invite = isMember ? undefined : journal.pending
  if (invite !== undefined && hasChannel()) enter(invite)
}

void manager.died.then(die)
listen().catch(die)
journal.note({ is: 'started', agent: self })
if (hasChannel()) enter(journal.pending ?? 'own')
else if (isMember) leave('gone while it was off')
setInterval(look, 200)
reply({ ready: self })
createInterface({ input: process.stdin })
  .on('line', (line) => {
    const { n, ...order } = JSON.parse(line) as Order & { readonly n: number }
    obey(order as Order).then(
      (result) => reply({ done: n, result: result ?? null }),
      (error: unknown) => {
        const { code, message } = StaticError.from(error)
        reply({ failed: n, code, message })
      },
    )
  })
  // Exit with the machine.
  .on('close', () => process.exit(0))
