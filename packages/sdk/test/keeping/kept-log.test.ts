/** The history on disk: its bounds by age and size, deleted in small steps, and what deletion leaves in the files. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Journal } from '../../src/channel/journal.ts'
import { type Amount, KeptLog, MOST_KEPT_BYTES, MOST_KEPT_MESSAGES } from '../../src/channel/keeping/kept-log.ts'
import type { AgentStore, Change, KeptRecord, KeptSize } from '../../src/ports/index.ts'
import {
  AGENT,
  CHANNEL,
  copyOf,
  decrypted,
  keptRecord,
  makeDirectory,
  openStore,
  put,
  ringRecords,
  unpredictable,
} from '../store/support.ts'

const NEWEST = Number.MAX_SAFE_INTEGER
const nothing = (): Amount => ({ messages: 0, bytes: 0 })

/** Rows without content, and the size of each step that deletes some. */
class Rows {
  rows: KeptSize[]
  readonly steps: KeptSize[][] = []
  #step: KeptSize[] = []

  constructor(rows: readonly KeptSize[]) {
    this.rows = rows.toReversed()
  }

  get log(): KeptLog {
    return new KeptLog(
      {
        kept: () => assert.fail('content is not needed'),
        keptSizes: (_id, before, limit) => {
          this.#end()
          const from = this.rows.findIndex(({ index }) => index < before)
          return from < 0 ? [] : this.rows.slice(from, from + limit)
        },
        add: (...changes) => {
          for (const change of changes) if (change.type === 'dropKept') this.#step.push(change.place as KeptSize)
        },
        written: async () => {},
      },
      CHANNEL,
    )
  }

  /** What is left, the oldest first. */
  get left(): readonly KeptSize[] {
    this.#end()
    return this.rows.toReversed()
  }

  #end(): void {
    const gone = new Set(this.#step)
    if (gone.size === 0) return
    this.steps.push(this.#step)
    this.rows = this.rows.filter((row) => !gone.has(row))
    this.#step = []
  }
}

function size(index: number, fields: Partial<KeptSize> = {}): KeptSize {
  return { index, part: 0, sender: AGENT, keptAt: 1000, bytes: 300, ...fields }
}

test('beyond 100,000 messages the oldest go, in small steps', async () => {
  const rows = new Rows(Array.from({ length: MOST_KEPT_MESSAGES + 1500 }, (_, at) => size(at + 1)))
  await rows.log.sweep(0, nothing)
  const { left } = rows
  assert.deepEqual([left.length, left[0]?.index], [MOST_KEPT_MESSAGES, 1501])
  assert.ok(rows.steps.length >= 12 && rows.steps.every(({ length }) => length <= 128))
})

test('beyond 64 MiB the oldest go, one by one', async () => {
  const large = 256 * 1024
  const rows = new Rows(Array.from({ length: 300 }, (_, at) => size(at + 1, { bytes: large })))
  await rows.log.sweep(0, nothing)
  assert.deepEqual([rows.left.length, rows.left[0]?.index], [MOST_KEPT_BYTES / large, 300 - 256 + 1])
  assert.ok(rows.steps.every(({ length }) => length === 1))
})

test('messages kept before the time go, wherever they are in the log', async () => {
  const old = [3, 4, 600, 601, 1300]
  const rows = new Rows(
    Array.from({ length: 1300 }, (_, at) => size(at + 1, { keptAt: old.includes(at + 1) ? 9 : 10 })),
  )
  await rows.log.sweep(10, nothing)
  const left = rows.left.map(({ index }) => index)
  assert.deepEqual(
    old.filter((index) => left.includes(index)),
    [],
  )
  assert.equal(left.length, 1300 - old.length)
})

test('however fast messages are added, a history has at most twice the limits', async () => {
  const large = { bytes: 32 * 1024 }
  const atMost = MOST_KEPT_BYTES / large.bytes
  const rows = new Rows(Array.from({ length: atMost }, (_, at) => size(at + 1, large)))
  let next = atMost + 1
  let most = 0
  // In each step far more than it looks at otherwise.
  const added = (): Amount => {
    const fresh = Array.from({ length: 300 }, () => size(next++, large))
    rows.rows = [...fresh.toReversed(), ...rows.rows]
    most = Math.max(most, rows.left.length)
    return { messages: fresh.length, bytes: fresh.length * large.bytes }
  }
  await rows.log.sweep(0, added)
  assert.ok(most < 2 * atMost, `${most} messages`)
  await rows.log.sweep(0, nothing)
  assert.equal(rows.left.length, atMost)
})

test('packs across the ends of steps are deleted whole', async () => {
  const parts = (index: number): KeptSize[] => Array.from({ length: 16 }, (_, part) => size(index, { part }))
  const rows = new Rows(Array.from({ length: 100 }, (_, at) => parts(at + 1)).flat())
  await rows.log.erase()
  assert.deepEqual(rows.left, [])
})

/** A history on a real disk. */
async function opened(records: readonly KeptRecord[]): Promise<{ directory: string; store: AgentStore; log: KeptLog }> {
  const directory = makeDirectory()
  const store = await openStore(directory)
  store.write([put()])
  for (let at = 0; at < records.length; at += 50) {
    store.write(records.slice(at, at + 50).map((record): Change => ({ type: 'putKept', id: CHANNEL, record })))
  }
  const journal = new Journal(store, (error) => assert.fail(error))
  return { directory, store, log: new KeptLog(journal, CHANNEL) }
}

/** How many of the payloads are still there, in part at least, as someone with the agent's key sees it. */
async function remaining(store: AgentStore, directory: string, payloads: readonly Uint8Array[]): Promise<number> {
  store.checkpoint()
  const copy = copyOf(directory)
  const pages = Buffer.concat([await decrypted(copy), ...(await ringRecords(copy)).map(({ changes }) => changes)])
  const isThere = (payload: Uint8Array): boolean =>
    [0, payload.length / 2, payload.length - 16].some((at) => pages.includes(payload.subarray(at, at + 16)))
  return payloads.filter(isThere).length
}

const PAYLOADS = [40, 700, 5000, 200_000, 900, 60_000].map(unpredictable)
const RECORDS = PAYLOADS.map((payload, at) => keptRecord(at + 1, { payload, bytes: payload.length }))

test('erased messages are not in the decrypted pages or the ring, and neither are those of a dropped channel', async () => {
  const { directory, store, log } = await opened(RECORDS)
  assert.equal(await remaining(store, directory, PAYLOADS), PAYLOADS.length)
  await log.sweep(RECORDS[3]!.keptAt, nothing)
  assert.equal(await remaining(store, directory, PAYLOADS), 3)
  assert.deepEqual(store.kept(CHANNEL, NEWEST, 10), RECORDS.slice(3).toReversed())
  await log.erase()
  assert.equal(await remaining(store, directory, PAYLOADS), 0)
  store.close()
  const again = await opened(RECORDS)
  again.store.write([{ type: 'dropChannel', id: CHANNEL }])
  assert.equal(await remaining(again.store, again.directory, PAYLOADS), 0)
  assert.deepEqual(again.store.kept(CHANNEL, NEWEST, 10), [])
  again.store.close()
})

test('a killed sweep has deleted whole steps, and the next one the rest', async () => {
  const many = Array.from({ length: 1400 }, (_, at) => keptRecord(at + 1, { payload: new Uint8Array(8), bytes: 8 }))
  const { directory, store } = await opened(many)
  const write = store.write.bind(store)
  let copy: string | undefined
  store.write = (changes: readonly Change[]) => {
    write(changes)
    if (changes.some(({ type }) => type === 'dropKept')) copy ??= copyOf(directory)
  }
  await new KeptLog(new Journal(store, (error) => assert.fail(error)), CHANNEL).erase()
  assert.deepEqual(store.keptSizes(CHANNEL, NEWEST, 10), [])
  store.close()
  const crashed = await openStore(copy ?? assert.fail('nothing was deleted'))
  const left = crashed.keptSizes(CHANNEL, NEWEST, 2000)
  assert.ok(left.length > 1000 && left.length < 1400, `${left.length} are left`)
  await new KeptLog(new Journal(crashed, (error) => assert.fail(error)), CHANNEL).erase()
  assert.deepEqual(crashed.keptSizes(CHANNEL, NEWEST, 10), [])
  crashed.close()
})

test('a page does not search long for messages behind those that are over', async () => {
  const over = Array.from({ length: 1000 }, (_, at) => keptRecord(at + 1, { payload: new Uint8Array(8), bytes: 8192 }))
  const { store, log } = await opened(over)
  let pages = 0
  const kept = store.kept.bind(store)
  store.kept = (...of) => {
    pages++
    return kept(...of)
  }
  assert.deepEqual(log.page(undefined, 10, NEWEST), [])
  assert.ok(pages < 8, `${pages} pages were read`)
  assert.equal(log.page(undefined, 10, over[989]!.keptAt).length, 10)
  store.close()
})

test('a page ends after 4 MiB, and is never empty before the end', async () => {
  const large = Array.from({ length: 40 }, (_, at) =>
    keptRecord(at + 1, { payload: new Uint8Array(250_000), bytes: 250_000 }),
  )
  const { store, log } = await opened(large)
  const sizes: number[] = []
  for (let before: number | undefined; ;) {
    const page = log.page(before, 1000, 0)
    if (page.length === 0) break
    sizes.push(page.length)
    before = page.at(-1)?.index
  }
  assert.deepEqual(sizes, [17, 17, 6])
  store.close()
})
