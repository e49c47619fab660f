/** What is only in the ring survives a crash, damage to it is noticed, and so is a ring or a database of another time. */
import assert from 'node:assert/strict'
import { createDecipheriv, type DecipherGCM } from 'node:crypto'
import { cpSync, readFileSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import type { AgentStore, Change } from '../../src/ports/index.ts'
import { readAgentIdentity } from '../../src/store/agent-directory.ts'
import { addKeySlot } from '../../src/store/keys/slots.ts'
import { ringFile } from '../../src/store/ring-disk.ts'
import type { RingRecord } from '../../src/store/ring/record.ts'
import { failingStep } from './steps.ts'
import {
  bytesOf,
  CHANNEL,
  code,
  copyOf,
  inboxRecord,
  makeDirectory,
  openStore,
  put,
  RING_BYTES,
  ringRecords,
  unpredictable,
} from './support.ts'
import { lastWrite, numberedWrite } from './workload.ts'

/** What a crash leaves after so many writes; the first `flushed` of them are in the database. */
async function crashedAfter(writes: number, flushed = 0): Promise<string> {
  const directory = makeDirectory()
  const store = await openStore(directory)
  for (let n = 1; n <= writes; n++) {
    store.write(numberedWrite(n))
    if (n === flushed) store.load()
  }
  const crashed = copyOf(directory)
  store.close()
  return crashed
}

/** The last write that is found, after which the store works. */
async function lastIn(directory: string): Promise<number> {
  const store = await openStore(directory)
  const n = lastWrite(store)
  store.write(numberedWrite(n + 1))
  store.close()
  const again = await openStore(directory)
  assert.equal(lastWrite(again), n + 1)
  again.close()
  return n
}

function changeRing(directory: string, change: (ring: Buffer) => void): string {
  const copy = copyOf(directory)
  const ring = readFileSync(ringFile(copy))
  change(ring)
  writeFileSync(ringFile(copy), ring)
  return copy
}

/** A byte of each part of a record: life, number, length, tag before it, kind, changes, tag. */
function partsOf({ place, changes }: RingRecord): readonly number[] {
  const tag = place + 45 + changes.length
  return [place, place + 15, place + 16, place + 24, place + 28, place + 44, place + 45, tag - 1, tag, tag + 15]
}

/** Puts single files back from a copy. */
function putBack(from: string, to: string, files: readonly string[]): void {
  for (const name of files) {
    rmSync(`${to}/${name}`, { force: true })
    cpSync(from, to, { recursive: true, filter: (path) => path === from || path.endsWith(`/${name}`) })
  }
}

test('writes that only the ring has are found by all callers that open the agent', async () => {
  const crashed = await crashedAfter(3)
  assert.equal((await ringRecords(crashed)).length, 4)
  const before = readFileSync(ringFile(crashed))
  assert.deepEqual((await readAgentIdentity(crashed)).channels, ['acme/support/routing'])
  await addKeySlot(crashed, { type: 'file' }, { type: 'file', path: `${crashed}/other.key` })
  assert.deepEqual(readFileSync(ringFile(crashed)), before)
  assert.equal(await lastIn(crashed), 3)
})

test('a torn last record is dropped, wherever it was torn', async () => {
  const crashed = await crashedAfter(3, 1)
  const last = (await ringRecords(crashed)).at(-1)!
  for (const from of [...partsOf(last), last.place + 512]) {
    // What was torn off may have been a zero.
    const torn = changeRing(crashed, (ring) => ring.fill(ring[from] === 0 ? 1 : 0, from, last.place + last.size))
    assert.equal(await lastIn(torn), 2, `torn at ${from - last.place}`)
  }
})

test('a flipped bit in the last record drops it; in an earlier one it is damage', async () => {
  const crashed = await crashedAfter(4, 1)
  const [, , third, last] = (await ringRecords(crashed)).slice(-4)
  for (const at of partsOf(last!)) {
    const flipped = changeRing(crashed, (ring) => (ring[at]! ^= 1))
    assert.equal(await lastIn(flipped), 3, `flipped at ${at - last!.place}`)
  }
  for (const at of partsOf(third!)) {
    const flipped = changeRing(crashed, (ring) => (ring[at]! ^= 1))
    await assert.rejects(openStore(flipped), code('store_corrupt', /agent\.ring is damaged/), `${at - third!.place}`)
    await assert.rejects(readAgentIdentity(flipped), code('store_corrupt'))
  }
})

test('records of two copies of a ring cannot be mixed', async () => {
  const crashed = await crashedAfter(1)
  const [copies, names] = [
    [copyOf(crashed), copyOf(crashed)],
    ['one', 'other'],
  ]
  const flushed: string[] = []
  for (const [at, directory] of copies.entries()) {
    const store = await openStore(directory)
    for (let n = 1; n <= 3; n++) store.write([put({ ownHash: bytesOf(`${names[at]} ${n}`) })])
    copies[at] = copyOf(directory)
    store.load()
    flushed[at] = copyOf(directory)
    store.close()
  }
  const [one, other] = copies as [string, string]
  const { place, size } = (await ringRecords(one)).at(-2)!
  const foreign = readFileSync(ringFile(other)).subarray(place, place + size)
  const mixed = changeRing(one, (ring) => foreign.copy(ring, place))
  assert.deepEqual(
    (await ringRecords(mixed)).map(({ number }) => number),
    (await ringRecords(one)).map(({ number }) => number),
    'it is a record of the same agent, with the right number',
  )
  await assert.rejects(openStore(mixed), code('store_corrupt', /agent\.ring is damaged/))
  // Its last record has the number and the place that the database knows, but is another one.
  const [database, ring] = flushed as [string, string]
  putBack(ring, database, ['agent.ring'])
  await assert.rejects(openStore(database), code('store_rolled_back', /agent\.ring/))
})

test('a ring that is missing, of another agent, or without what the database knows of it is noticed', async () => {
  const crashed = await crashedAfter(3, 2)
  const known = (await ringRecords(crashed)).at(-2)!
  const missing = copyOf(crashed)
  rmSync(ringFile(missing))
  const foreign = copyOf(crashed)
  putBack(await crashedAfter(3, 2), foreign, ['agent.ring'])
  const cut = copyOf(crashed)
  truncateSync(ringFile(cut), known.place + 100)
  const flipped = partsOf(known).map((at) => changeRing(crashed, (ring) => (ring[at]! ^= 1)))
  for (const directory of [missing, foreign, cut, ...flipped]) {
    await assert.rejects(openStore(directory), code('store_rolled_back', /agent\.ring/))
    // Refusing changes nothing. Accepted on purpose, it opens with what the database has.
    const store = await openStore(directory, { acceptRolledBack: true })
    assert.equal(lastWrite(store), 2)
    store.close()
  }
})

test('a ring of another size, or behind a symbolic link, is refused before it is read', async () => {
  const crashed = await crashedAfter(3, 2)
  for (const size of [RING_BYTES - 64, RING_BYTES + 64, 2 ** 40]) {
    const resized = copyOf(crashed)
    truncateSync(ringFile(resized), size)
    await assert.rejects(openStore(resized), code('store_rolled_back', /agent\.ring/), `${size} bytes`)
    await assert.rejects(readAgentIdentity(resized), code('store_rolled_back'))
    rmSync(ringFile(resized))
  }
  const linked = copyOf(crashed)
  renameSync(ringFile(linked), `${linked}/elsewhere`)
  symlinkSync('elsewhere', ringFile(linked))
  await assert.rejects(openStore(linked), code('invalid_request', /agent\.ring is a symbolic link/))
})

/** What is decrypted while something is done, as it is afterwards. */
async function decryptedBy(work: () => Promise<void>): Promise<readonly Buffer[]> {
  const [key, nonce] = [Buffer.alloc(32), Buffer.alloc(12)]
  const prototype = Object.getPrototypeOf(createDecipheriv('aes-256-gcm', key, nonce)) as DecipherGCM
  const found: Buffer[] = []
  const update = Reflect.get(prototype, 'update') as (bytes: Uint8Array) => Buffer
  Object.defineProperty(prototype, 'update', {
    configurable: true,
    value(this: DecipherGCM, bytes: Uint8Array) {
      found.push(Reflect.apply(update, this, [bytes]))
      return found.at(-1)
    },
  })
  try {
    await work()
  } finally {
    Object.defineProperty(prototype, 'update', { configurable: true, value: update })
  }
  return found
}

test('decrypted records are wiped from memory, also those that are damaged or refused', async () => {
  const crashed = await crashedAfter(4, 1)
  const [, , third, last] = (await ringRecords(crashed)).slice(-4)
  const damaged = changeRing(crashed, (ring) => (ring[third!.place + 50]! ^= 1))
  const torn = changeRing(crashed, (ring) => (ring[last!.place + 50]! ^= 1))
  const works = [
    async () => void (await readAgentIdentity(copyOf(crashed))),
    async () => (await openStore(copyOf(torn))).close(),
    async () => assert.rejects(openStore(damaged), code('store_corrupt')),
  ]
  for (const work of works) {
    const found = await decryptedBy(work)
    assert.ok(found.length >= 4)
    // All but the kind of the record, its first byte.
    for (const bytes of found) assert.ok(bytes.subarray(1).every((byte) => byte === 0))
  }
})

test('closing a store that has failed wipes what only the ring has', async (t) => {
  const buffers: Buffer[] = []
  const plain = Uint8Array
  t.after(() => (globalThis.Uint8Array = plain))
  globalThis.Uint8Array = new Proxy(plain, {
    construct: (target, values: [number]) => {
      const bytes = new target(...values)
      if (values[0] >= 4096) buffers.push(Buffer.from(bytes.buffer))
      return bytes
    },
  })
  const store = await openStore(makeDirectory())
  const { messageKey } = inboxRecord(1)
  store.write([put(), { type: 'putInbox', id: CHANNEL, record: inboxRecord(1) }])
  const holding = (): number => buffers.filter((bytes) => bytes.includes(messageKey)).length
  assert.equal(holding(), 1)
  const heal = failingStep('COMMIT')
  assert.throws(() => store.load(), /EIO/)
  heal()
  store.close()
  assert.equal(holding(), 0)
})

test('an old ring with a newer database is noticed, and vice versa', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  store.write(numberedWrite(1))
  store.load()
  const early = copyOf(directory)
  store.write(numberedWrite(2))
  store.load()
  store.write(numberedWrite(3))
  const late = copyOf(directory)

  const oldRing = copyOf(late)
  putBack(early, oldRing, ['agent.ring'])
  await assert.rejects(openStore(oldRing), code('store_rolled_back', /agent\.ring/))
  // The ring still has everything that this database lacks.
  const sameRound = copyOf(late)
  putBack(early, sameRound, ['agent.db', 'agent.db-wal'])
  assert.equal(await lastIn(sameRound), 3)
  // After a round of the ring it has not.
  for (let n = 4; n <= 40; n++) store.write(numberedWrite(n))
  const rounds = copyOf(directory)
  putBack(early, rounds, ['agent.db', 'agent.db-wal'])
  await assert.rejects(openStore(rounds), code('store_rolled_back', /agent\.ring/))
  // Nor if a part went straight to the database.
  store.write(large(1))
  const before = copyOf(directory)
  store.write(large(2))
  const direct = copyOf(directory)
  putBack(before, direct, ['agent.db', 'agent.db-wal'])
  await assert.rejects(openStore(direct), code('store_rolled_back', /agent\.ring/))
  store.close()
})

/** More than a record may hold. */
function large(index: number): Change[] {
  return [{ type: 'putInbox', id: CHANNEL, record: inboxRecord(index, { ciphertext: unpredictable(RING_BYTES) }) }]
}

test('a write that is too large goes straight to the database, after what came before it', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  store.write(numberedWrite(1))
  const record = inboxRecord(9, { ciphertext: unpredictable(RING_BYTES) })
  store.write([{ type: 'putInbox', id: CHANNEL, record }, ...numberedWrite(2)])
  const crashed = copyOf(directory)
  store.close()
  const after = await openStore(crashed)
  assert.equal(after.load().channels[0]?.record.counter, 2)
  assert.deepEqual(after.inbox(CHANNEL, 8, 10), [record])
  after.close()
})

/** What a failed transaction of a large write leaves: the last record that the database lacks is `direct`. */
async function failedLargeWrite(): Promise<string> {
  const directory = makeDirectory()
  const store = await openStore(directory)
  store.write(numberedWrite(1))
  store.load()
  const heal = failingStep('COMMIT')
  try {
    assert.throws(() => store.write([...large(9), ...numberedWrite(2)]), /EIO/)
  } finally {
    heal()
    store.close()
  }
  return directory
}

test('a large write that failed does not keep the agent from starting, however often a start fails', async () => {
  const directory = await failedLargeWrite()
  assert.equal((await ringRecords(directory)).at(-1)?.kind, 'direct')
  const before = readFileSync(ringFile(directory))
  for (let start = 0; start < 3; start++) {
    const heal = failingStep('COMMIT')
    try {
      await assert.rejects(openStore(directory), /EIO/)
    } finally {
      heal()
    }
    assert.deepEqual(readFileSync(ringFile(directory)), before, 'a start that failed appended something')
  }
  assert.equal(await lastIn(directory), 1)
})

test('starts that fail at their last step do not fill the ring', async () => {
  const directory = await crashedAfter(2)
  for (let start = 0; start < 3; start++) {
    const heal = failingStep('wal_checkpoint(TRUNCATE)')
    try {
      await assert.rejects(openStore(directory), /EIO/)
    } finally {
      heal()
    }
    assert.deepEqual(
      (await ringRecords(copyOf(directory))).map(({ number }) => number),
      [4],
    )
  }
  assert.equal(await lastIn(directory), 2)
})

test('many rounds of a small ring, with crashes: every acknowledged write is there', async () => {
  let directory = makeDirectory()
  let store = await openStore(directory)
  const places = new Set<number>()
  for (let n = 1; n <= 150; n++) {
    store.write(numberedWrite(n))
    if (n % 11 !== 0) continue
    const crashed = copyOf(directory)
    store.close()
    for (const { place } of await ringRecords(crashed)) places.add(place)
    store = await openStore(crashed)
    assert.equal(lastWrite(store), n)
    directory = crashed
  }
  store.close()
  assert.ok(Math.max(...places) > RING_BYTES / 2, 'the ring never came to its end')
})

/** How far the database is without its ring. */
async function inDatabase(directory: string): Promise<number> {
  const copy = copyOf(directory)
  rmSync(ringFile(copy))
  const store = await openStore(copy, { acceptRolledBack: true })
  const counter = store.load().channels[0]?.record.counter ?? 0
  store.close()
  return counter
}

test('the database follows in time, after many writes, and before it is read', async (t) => {
  const directory = makeDirectory()
  const store = await openStore(directory, { ringBytes: 1024 * 1024 })
  t.mock.timers.enable({ apis: ['setTimeout'] })
  store.write([put({ counter: 1 })])
  t.mock.timers.tick(249)
  assert.equal(await inDatabase(directory), 0)
  t.mock.timers.tick(1)
  assert.equal(await inDatabase(directory), 1)
  store.write([put({ counter: 2 })])
  assert.equal(await inDatabase(directory), 1)
  store.inbox(CHANNEL, 0, 1)
  assert.equal(await inDatabase(directory), 2)
  for (let counter = 3; counter < 3 + 255; counter++) store.write([put({ counter })])
  assert.equal(await inDatabase(directory), 2)
  store.write([put({ counter: 258 })])
  assert.equal(await inDatabase(directory), 258)
  store.close()
})

/** Writes until a step fails, then shows that the agent has stopped and that nothing acknowledged is lost. */
async function failAt(step: Parameters<typeof failingStep>[0], fail: (store: AgentStore) => void): Promise<void> {
  const directory = makeDirectory()
  const store = await openStore(directory)
  store.write(numberedWrite(1))
  store.write(numberedWrite(2))
  const heal = failingStep(step)
  try {
    assert.throws(() => fail(store), code('store_failed', /failed \(EIO\)\. Check the disk .* restart the agent\.$/))
  } finally {
    heal()
  }
  // The error is gone, but the agent's memory is ahead of its disk, and a number of the ring may be used up.
  assert.throws(() => store.write(numberedWrite(3)), /EIO/)
  const crashed = copyOf(directory)
  store.close()
  for (const place of [crashed, directory]) {
    const found = await lastIn(place)
    assert.ok(found === 2 || (found === 3 && step !== 'writeSync'), `found ${found}`)
  }
}

test('an error of the ring stops the agent, and nothing that was acknowledged is lost', async () => {
  for (const step of ['writeSync', 'fdatasyncSync'] as const) {
    await failAt(step, (store) => store.write(numberedWrite(3)))
  }
})

test('a full disk is called that, by the ring and by the database', async () => {
  for (const step of ['writeSync', 'COMMIT'] as const) {
    const store = await openStore(makeDirectory())
    const heal = failingStep(step, 'ENOSPC')
    try {
      assert.throws(
        () => {
          store.write(numberedWrite(1))
          store.load()
        },
        code('store_failed', /^The disk with .* is full\. Free some space, then restart the agent\.$/),
      )
    } finally {
      heal()
      store.close()
    }
  }
})

test('an error of the database stops the agent, and the ring has what it lacks', async () => {
  await failAt('COMMIT', (store) => store.load())
})

test('an error of the database is reported when it is written to in time, without another call', async (t) => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const failures: unknown[] = []
  store.onFailure((error) => failures.push(error))
  store.write(numberedWrite(1))
  const heal = failingStep('COMMIT')
  t.mock.timers.tick(250)
  heal()
  assert.ok(code('store_failed', /EIO/)(failures[0]))
  assert.throws(() => store.load(), /EIO/)
  assert.equal(failures.length, 1)
  store.close()
  t.mock.timers.reset()
  assert.equal(await lastIn(directory), 1)
})

test('a read error is thrown, and the store continues', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  store.onFailure((error) => assert.fail(String(error)))
  store.write(numberedWrite(1))
  const heal = failingStep('all')
  assert.throws(() => store.inbox(CHANNEL, 0, 1), /EIO/)
  heal()
  store.write(numberedWrite(2))
  store.close()
  assert.equal(await lastIn(directory), 2)
})

test('a checkpoint leaves no key in the ring, and neither does a start after a crash', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  for (let n = 1; n <= 40; n++) store.write(numberedWrite(n))
  store.checkpoint()
  const [only, ...others] = await ringRecords(copyOf(directory))
  assert.deepEqual([only?.changes.length, others], [0, []])
  const { place, size } = only!
  const ring = readFileSync(ringFile(directory))
  assert.ok(ring.fill(0, place, place + size).every((byte) => byte === 0))
  store.write(numberedWrite(41))
  const crashed = copyOf(directory)
  store.close()
  const after = await openStore(crashed)
  assert.deepEqual(
    (await ringRecords(copyOf(crashed))).map(({ changes }) => changes.length),
    [0],
  )
  after.close()
})

test('no number of a record is sealed twice with one key', async () => {
  const crashed = await crashedAfter(3)
  const last = (await ringRecords(crashed)).at(-1)!
  const torn = changeRing(crashed, (ring) => ring.fill(0, last.place + 40, last.place + last.size))
  const lives = new Set<string>()
  for (const directory of [copyOf(torn), copyOf(torn)]) {
    const store = await openStore(directory)
    const ring = readFileSync(ringFile(directory))
    const [{ place, number }] = (await ringRecords(copyOf(directory))) as [RingRecord]
    assert.equal(number, last.number)
    lives.add(ring.subarray(place, place + 16).toString('hex'))
    store.close()
  }
  lives.add(
    readFileSync(ringFile(crashed))
      .subarray(last.place, last.place + 16)
      .toString('hex'),
  )
  assert.equal(lives.size, 3)
})
