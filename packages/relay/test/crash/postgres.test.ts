/** PostgreSQL is killed under load, and its standby takes over: nothing acknowledged is lost, doubled or out of order. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { type PostgresCluster, type PostgresServer, startCluster } from '@static/testkit/postgres/cluster'
import type { Store } from '../../src/ports.ts'
import { openPostgresStore, type PostgresStore } from '../../src/store/postgres/store.ts'
import { ChannelFixture, RETENTION, assertChain, hex16, id16 } from '../store/channel-fixture.ts'

const CHANNELS = ['one', 'two', 'three']
/** Messages of each channel: so many before, between and after the faults. */
const PART = 25
const PAGE_BYTES = 8192

/** A sender that repeats each message under its id until it is acknowledged, and then goes on. */
class Sender {
  readonly world: ChannelFixture
  readonly label: string
  /** The index of each acknowledged message, in order. */
  readonly acknowledged: number[] = []

  constructor(store: Store, label: string) {
    this.world = Object.assign(new ChannelFixture(store, []), { channel: hex16(label) })
    this.label = label
  }

  async send(count: number): Promise<void> {
    for (const end = this.acknowledged.length + count; this.acknowledged.length < end;) {
      const counter = this.acknowledged.length + 1
      const request = this.world.message('alice', { counter, messageId: id16(`${this.label} ${counter}`) })
      const result = await this.world.run('append', request).catch(() => undefined)
      if (result && 'index' in result) this.acknowledged.push(result.index)
      else await wait(20)
    }
  }

  /** Every acknowledged message is where its answer said, once. */
  async check(): Promise<void> {
    const { entries, gap } = await this.world.read('alice', 0)
    assert.equal(gap, undefined)
    assertChain(this.world.channel, entries)
    const ids = entries.map((entry) => (entry.kind === 'message' ? Buffer.from(entry.messageId).toString('hex') : ''))
    const expected = this.acknowledged.map((_, at) => Buffer.from(id16(`${this.label} ${at + 1}`)).toString('hex'))
    assert.deepEqual(ids, expected)
    assert.deepEqual(
      this.acknowledged,
      expected.map((_, at) => at + 1),
    )
  }
}

const openNode = async (t: TestContext, url: string, keyFile: string): Promise<PostgresStore> => {
  const store = await openPostgresStore({ url, keyFile, retention: RETENTION, lanes: 2 }, () => {})
  t.after(() => store.close())
  return store
}

test('killing the primary and promoting a standby loses nothing', { timeout: 240_000 }, async (t) => {
  const cluster = await startCluster()
  t.after(() => cluster.close())
  const { url, primary, standby } = cluster
  const directory = mkdtempSync(join(tmpdir(), 'static-key-'))
  t.after(() => rmSync(directory, { recursive: true, force: true }))
  const keyFile = join(directory, 'relay.key')
  const nodes = [await openNode(t, url, keyFile), await openNode(t, url, keyFile)]
  assert.equal(nodes[0]?.durability(), 'fsync+standby')
  await assert.rejects(openNode(t, standby.url, keyFile), /is a standby/)

  const senders = CHANNELS.map((label, at) => new Sender(nodes[at % 2] as Store, label))
  for (const { world, label } of senders) await world.create('alice', { name: `acme/support/${label}` })
  const send = (count = PART): Promise<unknown> => Promise.all(senders.map((sender) => sender.send(count)))
  await send()
  for (const end of ['pg_terminate_backend', 'pg_cancel_backend'] as const) await endWait(cluster, senders[0]!, end)

  const first = send()
  await primary.kill()
  await primary.start()
  await first

  const second = send()
  await cluster.failOver()
  await second
  await send()
  for (const sender of senders) await sender.check()
  await Promise.all(nodes.map((node) => node.close()))

  // A flipped bit on the disk of the standby, which nobody reads until it is promoted; then one in an index.
  await cluster.rebuildStandby()
  const former = cluster.primary
  await flipBit(cluster.standby, 'entries', 'first page')
  await cluster.failOver()
  await refuses(t, cluster.primary, keyFile)
  await former.start()
  await flipBit(former, 'entries_pkey', 'last page')
  await refuses(t, former, keyFile)
})

/**
 * A commit waits for a standby that is down, and someone ends the wait: it is on the disk of the primary, but must not be
 * acknowledged before the standby has it.
 */
async function endWait({ primary, standby }: PostgresCluster, sender: Sender, end: string): Promise<void> {
  const waiting = `from pg_stat_activity where wait_event = 'SyncRep' and pid <> all ('{%}')`
  const waits = (except: string): string => primary.ask(`select pid ${waiting.replace('%', except)} limit 1`)
  await standby.stop()
  let isAnswered = false
  const sent = sender.send(1).then(() => (isAnswered = true))
  let first = ''
  for (; first === ''; await wait(20)) first = waits('')
  primary.ask(`select ${end}(${first})`)
  while (!isAnswered && waits(first) === '') await wait(20)
  assert.equal(isAnswered, false, `acknowledged after ${end}, without the standby`)
  await standby.start()
  await sent
}

/** Flips a bit in a row of a table or in a leaf of an index, while the server does not run. */
async function flipBit(server: PostgresServer, relation: string, page: 'first page' | 'last page'): Promise<void> {
  const file = server.ask(`select pg_relation_filepath('static_relay.${relation}')`)
  // Otherwise a standby would write the page anew from the log when it starts.
  server.ask('checkpoint')
  await server.stop()
  const path = join(server.data, file)
  const bytes = readFileSync(path)
  // The rows of a page are at its end.
  const at = (page === 'first page' ? PAGE_BYTES : bytes.length) - 40
  bytes[at] = (bytes[at] ?? 0) ^ 1
  writeFileSync(path, bytes)
  await server.start()
}

/** The page checksums of the server notice the damage: a read is refused, or has everything. */
async function refuses(t: TestContext, server: PostgresServer, keyFile: string): Promise<void> {
  const damaged: unknown[] = []
  const options = { url: server.url, keyFile, retention: RETENTION, lanes: 2 }
  const store = await openPostgresStore({ ...options, onDamage: (error) => damaged.push(error) }, () => {})
  t.after(() => store.close())
  const outcomes = await Promise.all(
    CHANNELS.map(async (label) => {
      const world = Object.assign(new ChannelFixture(store, []), { channel: hex16(label) })
      const read = await world.read('alice', 0).catch(() => undefined)
      if (!read) return 'refused'
      assert.equal(read.entries.length, 4 * PART)
      assertChain(world.channel, read.entries)
      return 'whole'
    }),
  )
  assert.ok(outcomes.includes('refused'))
  assert.ok(damaged.length > 0)
  assert.equal(store.healthy(), true)
}
