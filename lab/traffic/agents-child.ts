/** Some agents in a process of their own, in channels of two. It knows only `@static/sdk`, and talks on request. */
import { inspect } from 'node:util'
import { setTimeout as wait } from 'node:timers/promises'
import { type Channel, type ClientOptions, StaticClient } from '@static/sdk'
import { type Chance, chanceOf, messageBytes, untilNext } from './chance.ts'
import { isActive, type Phase, type Schedule } from './schedule.ts'
import type { Ask, Talk, Told } from './talk.ts'

interface Agent {
  readonly name: string
  readonly channel: string
  client?: StaticClient
  reading?: Promise<void>
}

const names = process.argv.slice(2)
const agents: Agent[] = names.map((name, at) => ({ name, channel: `traffic/proof/${names[at - (at % 2)] ?? name}` }))
const counts = { sent: 0, received: 0, lost: 0 }

async function connect(options: ClientOptions): Promise<void> {
  Object.assign(counts, { sent: 0, received: 0, lost: 0 })
  for (const agent of agents) {
    const { dataDir = '' } = options
    const client = await StaticClient.connect({ ...options, dataDir: `${dataDir}/${agent.name}`, identity: agent.name })
    agent.client = client
    void watch(client)
    const channel = client.channels().find(({ name }) => name === agent.channel)
    if (channel) agent.reading = read(channel)
  }
}

async function found(): Promise<void> {
  for (let at = 0; at + 1 < agents.length; at += 2) {
    const { client: owner, channel: name } = agents[at]!
    const { client: other } = agents[at + 1]!
    const channel = await owner!.createChannel(name)
    await other!.joinChannel(name, await channel.addMember(await other!.generateKeyPackage()))
  }
}

async function read(channel: Channel): Promise<void> {
  for await (const _ of channel.messages()) counts.received++
}

async function watch(client: StaticClient): Promise<void> {
  for await (const happened of client.events()) if (happened.type === 'disconnected') counts.lost++
}

/** Talks in the blocks of the phase. */
async function play(
  agent: Agent,
  phases: readonly Phase[],
  schedule: Schedule,
  talk: Talk,
  chance: Chance,
): Promise<void> {
  const { startsAt, blockMs, blocks } = schedule
  const channel = agent.client!.channel(agent.channel)
  const end = startsAt + blocks * blockMs
  const sending: Promise<unknown>[] = []
  await wait(Math.max(0, startsAt - Date.now()))
  for (;;) {
    await wait(Math.max(0, Math.min(untilNext(chance, talk.perSecond) * 1000, end - Date.now())))
    const now = Date.now()
    if (now >= end) break
    const block = Math.floor((now - startsAt) / blockMs)
    if (!phases.some((phase) => isActive(block, phase))) continue
    counts.sent++
    // An application does not wait either.
    sending.push(channel.send(textOf(talk.canary, messageBytes(chance, talk.longestBytes))))
  }
  await Promise.all(sending)
}

function textOf(canary: string, bytes: number): string {
  return canary.repeat(Math.ceil(bytes / canary.length)).slice(0, bytes)
}

async function close(): Promise<void> {
  await Promise.all(
    agents.map(async ({ client, reading }) => {
      await client?.close()
      await reading
    }),
  )
}

async function act(ask: Ask): Promise<void> {
  switch (ask.type) {
    case 'connect':
      return connect(ask.options)
    case 'found':
      return found()
    case 'play': {
      const { phases, schedule, talk } = ask
      await Promise.all(agents.map((agent, at) => play(agent, phases, schedule, talk, chanceOf(talk.seed + at))))
      return
    }
    case 'close':
      return close()
  }
}

function tell(told: Told): void {
  process.send?.(told)
}

function fail(error: unknown): void {
  tell({ type: 'failed', message: inspect(error) })
}

process.on('message', (ask: Ask) => {
  act(ask).then(() => tell({ type: 'done', counts }), fail)
})
// It does not outlive its parent.
process.on('disconnect', () => process.exit(0))
