/** Whom the store lets in: owner, process, identity, version; and what it says to damage. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { deleteAgent, readAgentIdentity } from '../../src/store/agent-directory.ts'
import { connect, databaseFile, storeError } from '../../src/store/connection.ts'
import { openDatabaseKey } from '../../src/store/keys/slots.ts'
import { mountSmallDisk, noSmallDisk } from '@static/testkit/full-disk'
import { failingStep } from './steps.ts'
import {
  bytesOf,
  CHANNEL,
  code,
  copyOf,
  IDENTITY,
  inboxRecord,
  keptRecord,
  makeDirectory,
  openStore,
  put,
} from './support.ts'
import { lastWrite, numberedWrite } from './workload.ts'

const CHILD = fileURLToPath(new URL('crashing-agent.ts', import.meta.url))

test('asks for new keys only at the first start', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  store.close()
  const again = await openStore(directory, {
    makeIdentity: () => {
      throw new Error('asked again')
    },
  })
  assert.deepEqual(again.load().identity, IDENTITY)
  again.close()
})

test('refuses another identity, and names the identity of the directory', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  store.close()
  const other = new TextEncoder().encode('shipping')
  await assert.rejects(openStore(directory, { identity: other }), code('invalid_request', /agent "billing"/))
})

test('repeats a first start if the keys could not be created', async () => {
  const directory = makeDirectory()
  const makeIdentity = () => {
    throw new Error('no randomness')
  }
  await assert.rejects(openStore(directory, { makeIdentity }), /no randomness/)
  const store = await openStore(directory)
  assert.deepEqual(store.load().identity, IDENTITY)
  store.close()
})

test('a second open is refused: from another process, and from this one', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  // Let in, it would end itself at that step.
  const fromOutside = () => spawnSync(process.execPath, [CHILD, directory, '500'], { encoding: 'utf8' }).stderr
  assert.match(fromOutside(), /store_locked/)
  await assert.rejects(openStore(directory), code('store_locked'))
  // The lock of a process is gone if it closes any descriptor of the file: the refused second try must not do that.
  assert.match(fromOutside(), /store_locked/)
  store.write([put()])
  store.close()
  const next = await openStore(directory)
  next.close()
})

test('refuses a directory or a file that others can access', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  store.write([put()])
  const crashed = copyOf(directory)
  store.close()

  chmodSync(crashed, 0o705)
  await assert.rejects(openStore(crashed), code('store_permissions', /chmod 700/))
  chmodSync(crashed, 0o700)
  for (const name of ['agent.db', 'agent.db-wal', 'keys.json', 'agent.key', 'agent.opens', 'agent.ring']) {
    chmodSync(join(crashed, name), 0o640)
    await assert.rejects(openStore(crashed), code('store_permissions', /chmod 600/), name)
    chmodSync(join(crashed, name), 0o600)
  }
  const opened = await openStore(crashed)
  opened.close()
})

test('refuses a directory of another user', { skip: process.geteuid?.() !== 0 }, async () => {
  const directory = makeDirectory()
  assert.equal(spawnSync('chown', ['65534', directory]).status, 0)
  await assert.rejects(openStore(directory), code('store_permissions', /another user/))
})

test('refuses a path that is not a directory', async () => {
  const file = join(makeDirectory(), 'file')
  writeFileSync(file, '')
  await assert.rejects(openStore(file), code('invalid_request'))
  await assert.rejects(openStore('/proc/static/agent'), code('invalid_request', /cannot be created/))
  await assert.rejects(openStore(join(file, 'below')), code('invalid_request'))
})

/** An agent whose database was changed behind its back. */
async function changed(sql: string): Promise<string> {
  const directory = makeDirectory()
  const store = await openStore(directory)
  store.close()
  const database = connect(databaseFile(directory), await openDatabaseKey(directory, { type: 'file' }))
  database.exec(sql)
  database.close()
  return directory
}

test('on a full disk an agent says so, with the path', { skip: noSmallDisk() }, async () => {
  using disk = mountSmallDisk()
  disk.fill()
  const full = (name: string): RegExp =>
    new RegExp(`The disk with ${disk.path}/${name}.* is full \\(\\d+ bytes free\\)`)
  await assert.rejects(openStore(join(disk.path, 'new')), code('store_failed', full('')))
  disk.fill(4_000_000)
  const directory = join(disk.path, 'agent')
  ;(await openStore(directory)).close()
  disk.fill()
  // SQLite says only that writing has failed.
  await assert.rejects(openStore(directory), code('store_failed', full('agent/')))
})

test('refuses the database of another version, and says what to do', async () => {
  const newer = await changed('PRAGMA user_version = 99')
  // As before there was a ring.
  const older = await changed('DROP TABLE ring; PRAGMA user_version = 2')
  for (const open of [openStore, readAgentIdentity]) {
    await assert.rejects(
      open(newer),
      code(
        'invalid_request',
        /schema 99, of a newer or unreleased version; .* Update Static; if this is the newest, delete the agent/,
      ),
    )
    await assert.rejects(
      open(older),
      code('invalid_request', /schema 2, .*before the first release.* Delete the agent/),
    )
  }
})

test('a SQLite error has a code for all callers that open the agent', async () => {
  const directory = await changed('DROP TABLE ring')
  for (const open of [openStore, readAgentIdentity]) {
    await assert.rejects(open(directory), code('internal_error', /agent\.db failed \(SQLITE_ERROR\)/))
  }
})

test('a disk that fails below SQLite has a code of its own, and the error says what to do', () => {
  const path = databaseFile(makeDirectory())
  const database = connect(path, randomBytes(32))
  database.exec('CREATE TABLE t (b BLOB)')
  database.pragma('max_page_count = 2')
  const fill = (): void => {
    try {
      database.prepare('INSERT INTO t VALUES (zeroblob(100000))').run()
    } catch (error) {
      throw storeError(error, path)
    }
  }
  assert.throws(fill, code('store_failed', /is full\. Free some space, then restart the agent\.$/))
  database.close()
})

test('a first start on a disk that fails has the same code', async () => {
  const heal = failingStep('fsyncSync')
  try {
    await assert.rejects(openStore(makeDirectory()), code('store_failed', /failed \(EIO\)\. Check the disk/))
  } finally {
    heal()
  }
})

test('a directory that is gone is named, and is no bug', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  const told: unknown[] = []
  store.onFailure((error) => void told.push(error))
  store.write(numberedWrite(1))
  rmSync(directory, { recursive: true })
  const words = /^The directory \/.* is gone \(ENOENT\)\. Put it back/
  assert.throws(() => store.checkpoint(), code('store_failed', words))
  assert.throws(() => store.write(numberedWrite(2)), code('store_failed', words))
  assert.deepEqual(told.map(String), [String(told[0])])
  store.close()
  await assert.rejects(readAgentIdentity(directory), code('not_found'))
  assert.throws(() => deleteAgent(directory), code('not_found'))
})

/** A store with some pages, closed. */
async function filled(): Promise<string> {
  const directory = makeDirectory()
  const store = await openStore(directory)
  for (let n = 1; n <= 30; n++) store.write(numberedWrite(n))
  for (let n = 31; n <= 90; n++) store.write([{ type: 'putInbox', id: CHANNEL, record: inboxRecord(n) }])
  store.write([{ type: 'putKept', id: CHANNEL, record: keptRecord(1) }])
  store.close()
  return directory
}

/** Opens and reads everything. */
async function readAll(directory: string): Promise<void> {
  const store = await openStore(directory)
  try {
    store.load()
    store.inbox(CHANNEL, 0, 1000)
    store.fileDigests(CHANNEL, 1)
    store.uploadParts(CHANNEL, bytesOf('file', 16))
    store.kept(CHANNEL, 1000, 1000)
  } finally {
    store.close()
  }
}

test('one changed byte in any page in use is noticed', async () => {
  const directory = await filled()
  await readAll(directory)
  const pages = readFileSync(databaseFile(directory)).length / 4096
  const free = await freePages(directory)
  assert.ok(pages - free.size > 20, `only ${pages - free.size} pages`)
  for (let page = 1; page <= pages; page++) {
    if (free.has(page)) continue
    const copy = copyOf(directory)
    const bytes = readFileSync(databaseFile(copy))
    bytes[(page - 1) * 4096 + ((page * 977) % 4096)]! ^= 1
    writeFileSync(databaseFile(copy), bytes)
    await assert.rejects(readAll(copy), code('store_corrupt'), `page ${page}`)
  }
})

/** Pages that hold nothing: nobody reads them. */
async function freePages(directory: string): Promise<Set<number>> {
  const database = connect(databaseFile(directory), await openDatabaseKey(directory, { type: 'file' }))
  const used = new Set(database.prepare<number>('SELECT pageno FROM dbstat').pluck().all())
  const count = Number(database.pragma('page_count', { simple: true }))
  database.close()
  return new Set(Array.from({ length: count }, (_, at) => at + 1).filter((page) => !used.has(page)))
}

test('a truncated file is noticed', async () => {
  const directory = await filled()
  const size = readFileSync(databaseFile(directory)).length
  for (const rest of [100, 4096, size / 2 - ((size / 2) % 4096), size - 4096, size - 1]) {
    const copy = copyOf(directory)
    truncateSync(databaseFile(copy), rest)
    await assert.rejects(readAll(copy), code('store_corrupt'), `${rest} of ${size} bytes`)
  }
})

test('a file of another kind is noticed', async () => {
  const directory = await filled()
  writeFileSync(databaseFile(directory), bytesOf('something else', 8192))
  await assert.rejects(openStore(directory), code('store_corrupt'))
  copyFileSync(fileURLToPath(import.meta.url), join(directory, 'keys.json'))
  chmodSync(join(directory, 'keys.json'), 0o600)
  await assert.rejects(openStore(directory), code('store_corrupt', /keys.json/))
})

test('moves the log into the database and empties it', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  for (let n = 1; n <= 30; n++) {
    store.write(numberedWrite(n))
    store.load()
  }
  const log = `${databaseFile(directory)}-wal`
  const before = readFileSync(log).length
  store.checkpoint()
  const after = readFileSync(log).length
  // Only the counter's page is in it again.
  assert.ok(after < 5 * 4200 && after < before / 10, `${before} → ${after} bytes`)
  assert.equal(lastWrite(store), 30)
  store.close()
  assert.equal(existsSync(log), false)
})

test('an existing empty directory is accepted', async () => {
  const directory = join(makeDirectory(), 'made before')
  mkdirSync(directory, { mode: 0o700 })
  const store = await openStore(directory)
  store.close()
})
