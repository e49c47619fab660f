/** A store of a relay node, in a process of its own: carries out orders and reports what they cost. */
import { randomBytes } from 'node:crypto'
import { openPostgresStore, openSqliteStore, type Retention } from '@static/testkit/store/relay-engines'
import { median } from '../api/processor.ts'
import type { Appends, NodeAsk, NodeTold, Place } from './messages.ts'

const DAY = 86_400_000
const BODY = randomBytes(1024)
const CREATED_AT_ONCE = 256
/** Nothing is ever refused. */
const RETENTION: Retention = {
  entryMs: 7 * DAY,
  messageIdMs: 7 * DAY,
  channelBytes: 2 ** 40,
  channelEntries: 2 ** 40,
  accountBytes: 2 ** 50,
  freeControl: 120,
  freeCommitBytes: 2 ** 40,
  freeChannelCommitBytes: 2 ** 40,
  memberAddsPerHour: 60,
}

const place = JSON.parse(process.argv[2] ?? '') as Place
const store =
  'path' in place
    ? await openSqliteStore({ ...place, retention: RETENTION }, () => {})
    : await openPostgresStore({ ...place, retention: RETENTION }, () => {})
/** Counters by channel and sender. */
const counters = new Map<string, number>()

const ownerOf = (channel: string): string => channel.repeat(2)
/** An account for each channel: sizes of accounts are summed over their channels. */
const actorOf = (agent: string, channel: string): { agent: string; account: { id: string; mode: 'live' } } => ({
  agent,
  account: { id: channel, mode: 'live' },
})

async function create(channel: string): Promise<void> {
  const request = { actor: actorOf(ownerOf(channel), channel), channel, name: `a/b/${channel}`, welcome: BODY }
  const result = await store.run('create', { ...request, guestLimit: 0, maxChannels: 1e9, now: Date.now() })
  if ('refused' in result) throw new Error(result.refused)
}

async function found(channel: string, members: readonly string[]): Promise<void> {
  await create(channel)
  const none = new Uint8Array()
  const adds = members.map((agent) => new Uint8Array(Buffer.from(agent, 'hex')))
  const result = await store.run('commit', {
    actor: actorOf(ownerOf(channel), channel),
    channel,
    slot: 0,
    messageId: randomBytes(16),
    commit: BODY,
    declaration: { adds, removes: [], leaveNotices: [], vouches: [], signature: randomBytes(64) },
    welcomes: members.map((agent) => ({ agent, welcome: BODY, inviteId: none, tag: none })),
    groupInfo: none,
    paid: 10_000,
    maxChannels: 1e9,
    guestLimit: 0,
    now: Date.now(),
  })
  if (!('index' in result)) throw new Error(JSON.stringify(result))
}

async function append(channel: string, sender: string, slot: number): Promise<void> {
  const key = `${channel} ${sender}`
  const counter = (counters.get(key) ?? 0) + 1
  counters.set(key, counter)
  const actor = actorOf(sender, channel)
  const message = { slot, messageId: randomBytes(16), counter, control: false, ciphertext: BODY, paid: actor.account }
  const result = await store.run('append', { actor, channel, ...message, now: Date.now() })
  if (!('index' in result)) throw new Error(JSON.stringify(result))
}

/** Messages in flight at once belong to different channels, if there are enough channels. */
async function appendAll({ channels, sender, count, window }: Appends): Promise<NodeTold> {
  // A channel with members has had the commit that added them.
  const slot = sender === undefined ? 0 : 1
  const times: number[] = []
  const before = { cpu: process.cpuUsage(), at: performance.now() }
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < count) {
      const channel = channels[next++ % channels.length] ?? ''
      const start = performance.now()
      await append(channel, sender ?? ownerOf(channel), slot)
      times.push(performance.now() - start)
    }
  }
  await Promise.all(Array.from({ length: window }, lane))
  const { user, system } = process.cpuUsage(before.cpu)
  const seconds = (performance.now() - before.at) / 1000
  return { type: 'appended', seconds, medianMs: median(times), cpu: user + system }
}

async function answer(ask: NodeAsk): Promise<NodeTold> {
  if (ask.type === 'append') return appendAll(ask)
  if (ask.type === 'found') await found(ask.channel, ask.members)
  else
    for (let at = 0; at < ask.channels.length; at += CREATED_AT_ONCE) {
      await Promise.all(ask.channels.slice(at, at + CREATED_AT_ONCE).map(create))
    }
  return { type: 'done' }
}

const tell = (told: NodeTold): void => void process.send?.(told)
process.on('message', (ask: NodeAsk) => void answer(ask).then(tell))
process.on('disconnect', () => void store.close().then(() => process.exit(0)))
tell({ type: 'ready' })
