/**
 * Pages that the relay's store writes for a message (1 KiB, 64 in each transaction), and transactions, each of which
 * flushes to disk once. Counts, not times: every run finds the same. With each transaction only the pages of the
 * messages; with sweeps, plus what the store writes later, once a second, here after every 50 transactions; with
 * acknowledgements, plus the cost of cutting the log.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileStore, PageCounter } from '@static/testkit/store/relay-file'
import { randomNumbers } from '@static/testkit/random'

const CIPHERTEXT = new Uint8Array(1120)
const BATCH = 64
const TRANSACTIONS = 200
/** Channels founded at a time: an agent can have 64 pending Welcomes of an account. */
const FOUNDED = 60
/** 3,200 messages a second. */
const TRANSACTIONS_PER_SECOND = 50
const START = Date.UTC(2026, 10, 15)
const RETENTION = {
  entryMs: 604_800_000,
  messageIdMs: 604_800_000,
  channelBytes: 2 ** 40,
  channelEntries: 2 ** 40,
  accountBytes: 2 ** 40,
  freeControl: 0,
  freeCommitBytes: 2 ** 30,
  freeChannelCommitBytes: 2 ** 30,
  memberAddsPerHour: 1000,
}
const CASES = [
  { name: 'one channel', channels: 1 },
  { name: '64 channels', channels: 64 },
  { name: '64 of 10,000 channels', channels: 10_000 },
] as const

const hash = (label: string): Buffer => createHash('sha256').update(label).digest()
const account = { id: 'account', mode: 'live' as const }
const sender = { agent: hash('sender').toString('hex'), account }
const reader = { agent: hash('reader').toString('hex'), account }
const idOf = (channel: number): string => hash(`channel ${channel}`).toString('hex').slice(0, 32)

interface Counts {
  readonly alone: number
  readonly withSweeps: number
  readonly withAcks: number
}

async function measure(channels: number): Promise<Counts> {
  const directory = mkdtempSync(join(tmpdir(), 'static-pages-'))
  const path = join(directory, 'relay.sqlite')
  const fail = (error: unknown): void => {
    throw error
  }
  const store = await fileStore(path)({ retention: RETENTION, onDeath: fail }, () => undefined)
  const pages = new PageCounter(path)
  const random = randomNumbers(1)
  const counters = new Map<number, number>()
  let now = START
  let made = 0

  /** Agents start their ids with the time. */
  const newId = (): Uint8Array => {
    const id = hash(`id ${++made}`).subarray(0, 16)
    id.writeUIntBE(now, 0, 6)
    return id
  }
  const found = async (channel: number): Promise<void> => {
    const common = { actor: sender, channel: idOf(channel), now }
    const naming = { name: `bench/pages/c${channel}`, welcome: CIPHERTEXT.subarray(0, 100) }
    await store.run('create', { ...common, ...naming, guestLimit: 0, maxChannels: 1e9 })
    const declaration = {
      adds: [Buffer.from(reader.agent, 'hex')],
      removes: [],
      leaveNotices: [],
      vouches: [],
      signature: hash('signature'),
    }
    const welcomes = [{ agent: reader.agent, welcome: CIPHERTEXT, inviteId: new Uint8Array(), tag: new Uint8Array() }]
    const commit = {
      slot: 0,
      messageId: newId(),
      commit: CIPHERTEXT,
      groupInfo: new Uint8Array(),
      paid: 0,
      maxChannels: 1e9,
      guestLimit: 0,
    }
    await store.run('commit', { ...common, ...commit, declaration, welcomes })
    await acknowledge([channel])
  }
  const acknowledge = async (list: readonly number[]): Promise<number> => {
    let written = 0
    for (const { agent } of [sender, reader]) {
      const positions = list.map((channel) => ({ channel: idOf(channel), index: 1 + (counters.get(channel) ?? 0) }))
      await store.run('ack', { agent, positions })
      written += pages.take()
    }
    return written
  }
  /** The messages of one transaction, each in another channel if there are enough. */
  const say = async (): Promise<readonly number[]> => {
    const chosen = new Set<number>()
    while (chosen.size < Math.min(BATCH, channels)) chosen.add(Math.floor(random() * channels))
    const list = [...chosen]
    const sent = Array.from({ length: BATCH }, (_, at) => {
      const channel = list[at % list.length] ?? 0
      const counter = (counters.get(channel) ?? 0) + 1
      counters.set(channel, counter)
      const message = { slot: 1, messageId: newId(), counter, control: false, ciphertext: CIPHERTEXT }
      const { account: paid } = sender
      return store.run('append', { actor: sender, channel: idOf(channel), ...message, paid, now })
    })
    for (const result of await Promise.all(sent)) if (!('index' in result)) throw new Error(JSON.stringify(result))
    now += 1000 / TRANSACTIONS_PER_SECOND
    return list
  }
  const sweep = async (): Promise<void> => void (await store.run('sweep', { now }))

  try {
    for (let from = 0; from < channels; from += FOUNDED) {
      const some = Array.from({ length: Math.min(FOUNDED, channels - from) }, (_, at) => found(from + at))
      await Promise.all(some)
    }
    for (let times = 0; times < channels / 128 + 2; times++) await sweep()
    const messages = TRANSACTIONS * BATCH
    let [alone, later, read] = [0, 0, 0]
    pages.take()
    for (let at = 1; at <= TRANSACTIONS; at++) {
      await say()
      alone += pages.take()
      if (at % TRANSACTIONS_PER_SECOND > 0) continue
      await sweep()
      // Before it answers, it returns free space to the file system after a sweep.
      await store.run('invite', { id: 'none' })
      later += pages.take()
    }
    for (let at = 1; at <= TRANSACTIONS; at++) {
      const list = await say()
      read += pages.take()
      read += await acknowledge(list)
      if (at % TRANSACTIONS_PER_SECOND > 0) continue
      await sweep()
      await store.run('invite', { id: 'none' })
      read += pages.take()
    }
    return { alone: alone / messages, withSweeps: (alone + later) / messages, withAcks: read / messages }
  } finally {
    await store.close()
    rmSync(directory, { recursive: true, force: true })
  }
}

const results: Record<string, Counts> = {}
for (const { name, channels } of CASES) {
  const counts = await measure(channels)
  results[name] = counts
  const { alone, withSweeps, withAcks } = counts
  console.log(
    `${name}: ${alone.toFixed(2)} pages a message, ${withSweeps.toFixed(2)} with the sweeps, ` +
      `${withAcks.toFixed(2)} if both members acknowledge after each transaction`,
  )
}
const folder = join(import.meta.dirname, 'results')
mkdirSync(folder, { recursive: true })
writeFileSync(join(folder, 'pages.json'), `${JSON.stringify(results, null, 2)}\n`)
