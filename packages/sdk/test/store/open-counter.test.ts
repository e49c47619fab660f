/** An old copy that was put back is noticed, as far as it can be; a crash or an error never looks like one. */
import assert from 'node:assert/strict'
import { chmodSync, cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { AgentStore } from '../../src/ports/index.ts'
import { checkCounters, OpenCounter, readCounterFile } from '../../src/store/open-counter.ts'
import type { AgentStoreOptions } from '../../src/store/sqlcipher.ts'
import { code, copyOf, IDENTITY, makeDirectory, openStore } from './support.ts'
import { lastWrite, numberedWrite } from './workload.ts'

function writeOnce(store: AgentStore): void {
  store.write(numberedWrite(lastWrite(store) + 1))
}

/** Starts, writes once, ends. */
async function live(directory: string, more: Partial<AgentStoreOptions> = {}): Promise<void> {
  const store = await openStore(directory, more)
  writeOnce(store)
  store.close()
}

/** Puts the database, and nothing else, back from a copy. */
function putBack(copy: string, directory: string): void {
  for (const name of ['agent.db', 'agent.db-wal']) {
    rmSync(join(directory, name), { force: true })
    cpSync(copy, directory, { recursive: true, filter: (path) => path === copy || path.endsWith(`/${name}`) })
  }
}

test('a copy from before the last session is noticed, whether or not that session ended cleanly', async () => {
  for (const ended of [true, false]) {
    const directory = makeDirectory()
    await live(directory)
    const copy = copyOf(directory)
    const store = await openStore(directory)
    writeOnce(store)
    if (ended) store.close()
    const place = ended ? directory : copyOf(directory)
    putBack(copy, place)
    await assert.rejects(openStore(place), code('store_rolled_back', /old copy/))
    // And again: being refused changes nothing.
    await assert.rejects(openStore(place), code('store_rolled_back', /old copy/))
    store.close()
  }
})

test('a copy from within a session is noticed after the next checkpoint', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  writeOnce(store)
  const copy = copyOf(directory)
  writeOnce(store)
  store.checkpoint()
  writeOnce(store)
  const crashed = copyOf(directory)
  store.close()
  putBack(copy, crashed)
  await assert.rejects(openStore(crashed), code('store_rolled_back', /old copy/))
})

test('a log lost after a crash is noticed', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  writeOnce(store)
  const early = copyOf(directory)
  store.checkpoint()
  writeOnce(store)
  const late = copyOf(directory)
  store.close()
  for (const crashed of [early, late]) {
    rmSync(join(crashed, 'agent.db-wal'))
    await assert.rejects(openStore(crashed), code('store_rolled_back'))
  }
})

test('a lost database is noticed, and no new identity replaces it', async () => {
  const directory = makeDirectory()
  await live(directory)
  const makeIdentity = () => {
    throw new Error('asked')
  }
  rmSync(join(directory, 'agent.db'))
  await assert.rejects(openStore(directory, { makeIdentity }), code('store_rolled_back'))
  await assert.rejects(openStore(directory, { makeIdentity }), code('store_rolled_back'))
})

test('a counter that is missing or older than the database cannot vouch for it', async () => {
  const directory = makeDirectory()
  await live(directory)
  const counter = join(directory, 'agent.opens')
  const old = readFileSync(counter)
  await live(directory)
  writeFileSync(counter, old)
  await assert.rejects(openStore(directory), code('store_rolled_back', /may be an old copy/))
  rmSync(counter)
  await assert.rejects(openStore(directory), code('store_rolled_back', /may be an old copy/))
  writeFileSync(counter, 'x', { mode: 0o600 })
  await assert.rejects(openStore(directory), code('store_corrupt', /agent\.opens/))
})

test('if kept elsewhere, the counter detects that the whole directory was rolled back', async () => {
  const directory = makeDirectory()
  const counterFile = join(makeDirectory(), 'opens')
  await live(directory, { counterFile })
  const copy = copyOf(directory)
  await live(copy, { counterFile })
  await assert.rejects(openStore(directory, { counterFile }), code('store_rolled_back', /old copy/))
})

test('an old copy can be opened on purpose, and is accepted from then on', async () => {
  const directory = makeDirectory()
  await live(directory)
  const copy = copyOf(directory)
  await live(directory)
  await live(directory)
  putBack(copy, directory)
  const store = await openStore(directory, { acceptRolledBack: true })
  assert.equal(lastWrite(store), 1)
  assert.deepEqual(store.load().identity, IDENTITY)
  store.close()
  await live(directory)
})

test('an idle agent does not increase the counter', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  const count = readCounterFile(join(directory, 'agent.opens'))
  store.checkpoint()
  store.checkpoint()
  assert.equal(readCounterFile(join(directory, 'agent.opens')), count)
  writeOnce(store)
  store.checkpoint()
  store.checkpoint()
  assert.equal(readCounterFile(join(directory, 'agent.opens')), count + 1)
  store.close()
})

test('exactly the states that a crash can leave are allowed', () => {
  for (let inDatabase = 0; inDatabase < 6; inDatabase++) {
    for (let inFile = 0; inFile < 6; inFile++) {
      const check = () => checkCounters(inDatabase, inFile, 'file')
      if (inDatabase === inFile || inDatabase === inFile + 1) check()
      else assert.throws(check, code('store_rolled_back'))
    }
  }
})

test('a counter file that is temporarily not writable does not cause a refusal', () => {
  const place = join(makeDirectory(), 'elsewhere')
  let inDatabase = 4
  const database = { read: () => inDatabase, write: (value: number) => void (inDatabase = value) }
  // The directory does not exist, like a mount that is gone.
  const counter = new OpenCounter(database, join(place, 'opens'), 4)
  for (let round = 0; round < 3; round++) {
    assert.throws(() => counter.advance(), /ENOENT/)
    checkCounters(inDatabase, 4, 'file')
  }
})

test('a counter file that others can read is refused', async () => {
  const directory = makeDirectory()
  await live(directory)
  chmodSync(join(directory, 'agent.opens'), 0o644)
  await assert.rejects(openStore(directory), code('store_permissions'))
})
