/** What can be found in the files: nothing without the key, and with the key nothing that was deleted. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { AgentStore, Change } from '../../src/ports/index.ts'
import {
  CHANNEL,
  copyOf,
  decrypted,
  filesHolding,
  inboxRecord,
  makeDirectory,
  openStore,
  outboxRecord,
  put,
  ringRecords,
  unpredictable,
} from './support.ts'

/** Notes every secret that it hands out. */
class Secrets {
  readonly all: Uint8Array[] = []

  make(length: number): Uint8Array {
    const secret = unpredictable(length)
    this.all.push(secret)
    return secret
  }
}

/** Every kind of change that carries a secret or a ciphertext. */
function everything(secrets: Secrets): Change[] {
  const epoch = () => ({
    group: secrets.make(9000),
    rows: new Map([0, 1, 2].map((leaf) => [leaf, secrets.make(90)] as const)),
  })
  return [
    {
      type: 'putKeyPackage',
      record: { ref: 'ref', keyPackage: secrets.make(400), privatePart: secrets.make(96), createdAt: 1, pooled: true },
    },
    put(),
    { type: 'putWelcome', id: CHANNEL, welcome: secrets.make(3000) },
    { type: 'putEpoch', id: CHANNEL, epoch: epoch() },
    {
      type: 'putPending',
      id: CHANNEL,
      pending: {
        messageId: secrets.make(16),
        slot: 1,
        request: secrets.make(2000),
        bodyHash: secrets.make(32),
        next: epoch(),
        purpose: '{}',
      },
    },
    {
      type: 'putOutbox',
      id: CHANNEL,
      record: outboxRecord(1, { ciphertext: secrets.make(1330), messageKey: secrets.make(44) }),
    },
    {
      type: 'putInbox',
      id: CHANNEL,
      record: inboxRecord(1, { ciphertext: secrets.make(1330), messageKey: secrets.make(44) }),
    },
  ]
}

test('no file contains a secret, a ciphertext or the schema: open, after a crash, and closed', async () => {
  const directory = makeDirectory()
  const secrets = new Secrets()
  const identity = { publicKey: secrets.make(32), secretKey: secrets.make(32) }
  const store = await openStore(directory, { makeIdentity: () => identity })
  store.write(everything(secrets))
  secrets.all.push(
    new TextEncoder().encode('acme/support/routing'),
    new TextEncoder().encode('CREATE TABLE channel'),
    new TextEncoder().encode('SQLite format 3\0'),
  )

  const crashed = copyOf(directory)
  assert.ok(readdirSync(crashed).includes('agent.db-wal'))
  // That the search finds what is there, it shows by the key, which lies in its file.
  assert.deepEqual(filesHolding(crashed, [readFileSync(join(directory, 'agent.key'))]), ['agent.key'])
  assert.deepEqual(filesHolding(directory, secrets.all), [])
  assert.deepEqual(filesHolding(crashed, secrets.all), [])

  store.checkpoint()
  assert.deepEqual(filesHolding(directory, secrets.all), [])
  store.close()
  assert.deepEqual(filesHolding(directory, secrets.all), [])
  const after = await openStore(crashed)
  after.close()
  assert.deepEqual(filesHolding(crashed, secrets.all), [])
})

test('only the owner can access the files, while open and afterwards', async () => {
  const directory = join(makeDirectory(), 'agent')
  const umask = process.umask(0)
  try {
    const store = await openStore(directory)
    store.write(everything(new Secrets()))
    const modes = () => readdirSync(directory).map((name) => [name, statSync(join(directory, name)).mode & 0o777])
    const names = ['.gitignore', 'agent.db', 'agent.db-wal', 'agent.key', 'agent.opens', 'agent.ring', 'keys.json']
    assert.deepEqual(
      modes(),
      names.map((name) => [name, 0o600]),
    )
    assert.equal(statSync(directory).mode & 0o777, 0o700)
    store.close()
    assert.ok(modes().every(([, mode]) => mode === 0o600))
  } finally {
    process.umask(umask)
  }
})

/** How many of the secrets are still in the database or the ring, in part at least, as someone with its key sees it. */
async function remaining(store: AgentStore, directory: string, secrets: readonly Uint8Array[]): Promise<number> {
  store.checkpoint()
  const copy = copyOf(directory)
  const records = await ringRecords(copy)
  assert.equal(records.length, 1)
  const pages = Buffer.concat([await decrypted(copy), ...records.map(({ changes }) => changes)])
  // Pieces of 16 bytes, found by their first 6: a search for each by itself takes minutes.
  const pieces = new Map<number, { readonly secret: Uint8Array; readonly piece: Buffer }>()
  for (const secret of secrets) {
    const bytes = Buffer.from(secret)
    for (let at = 0; at + 16 <= bytes.length; at += 16) {
      pieces.set(bytes.readUIntBE(at, 6), { secret, piece: bytes.subarray(at, at + 16) })
    }
  }
  const found = new Set<Uint8Array>()
  for (let at = 0; at + 16 <= pages.length; at++) {
    const match = pieces.get(pages.readUIntBE(at, 6))
    if (match?.piece.equals(pages.subarray(at, at + 16)) === true) found.add(match.secret)
  }
  return found.size
}

test('replaced or dropped data is not in the decrypted pages either', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  const secrets = new Secrets()
  store.write(everything(secrets))
  assert.equal(await remaining(store, directory, secrets.all), secrets.all.length)

  const fresh = { group: unpredictable(200), rows: new Map([[0, unpredictable(60)]]) }
  store.write([
    { type: 'dropKeyPackage', ref: 'ref' },
    { type: 'putWelcome', id: CHANNEL, welcome: undefined },
    { type: 'putEpoch', id: CHANNEL, epoch: fresh },
    { type: 'answerOutbox', id: CHANNEL, messageId: outboxRecord(1).messageId, bodyHash: unpredictable(32) },
    { type: 'dropInbox', id: CHANNEL, place: { index: 1, part: 0 } },
  ])
  assert.equal(await remaining(store, directory, secrets.all), 0)
  store.close()
})

test('nor are the ciphertexts of a full inbox that was read all at once', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  const secrets = new Secrets()
  store.write([put()])
  const record = (n: number) => inboxRecord(n, { ciphertext: secrets.make(1330), messageKey: secrets.make(44) })
  const messages = Array.from({ length: 700 }, (_, at): Change => ({
    type: 'putInbox',
    id: CHANNEL,
    record: record(at),
  }))
  store.write(messages)
  assert.equal(await remaining(store, directory, secrets.all), secrets.all.length)
  store.write(messages.map((_, index): Change => ({ type: 'dropInbox', id: CHANNEL, place: { index, part: 0 } })))
  store.write([{ type: 'putInbox', id: CHANNEL, record: inboxRecord(701) }])
  assert.equal(await remaining(store, directory, secrets.all), 0)
  assert.deepEqual(store.inbox(CHANNEL, 0, 10), [inboxRecord(701)])
  store.close()
})

test('nor is anything of a dropped channel', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  const secrets = new Secrets()
  store.write(everything(secrets))
  store.write([
    { type: 'dropKeyPackage', ref: 'ref' },
    { type: 'dropChannel', id: CHANNEL },
  ])
  assert.equal(await remaining(store, directory, secrets.all), 0)
  store.close()
})

test('after long traffic with messages of all sizes, old keys and ratchet rows are gone', async () => {
  const directory = makeDirectory()
  const store = await openStore(directory)
  const secrets = new Secrets()
  const rowSize = (n: number): number => 40 + ((n * 37) % 90)
  store.write([
    put(),
    { type: 'putEpoch', id: CHANNEL, epoch: { group: unpredictable(9000), rows: new Map([[0, secrets.make(90)]]) } },
  ])
  for (let n = 1; n <= 600; n++) {
    const ciphertext = unpredictable(100 + ((n * 331) % 3000))
    store.write([
      { type: 'putRow', id: CHANNEL, leaf: n % 23, row: secrets.make(rowSize(n)) },
      { type: 'putOutbox', id: CHANNEL, record: outboxRecord(n, { ciphertext, messageKey: secrets.make(44) }) },
      { type: 'putInbox', id: CHANNEL, record: inboxRecord(n, { ciphertext, messageKey: secrets.make(44) }) },
      { type: 'answerOutbox', id: CHANNEL, messageId: outboxRecord(n - 9).messageId, bodyHash: unpredictable(32) },
      { type: 'dropOutbox', id: CHANNEL, messageId: outboxRecord(n - 17).messageId },
      ...(n % 40 === 0 ? settled(n - 40, n) : []),
    ])
    if (n % 50 === 0) {
      store.write([{ type: 'putEpoch', id: CHANNEL, epoch: { group: secrets.make(9000 + n), rows: new Map() } }])
    }
    if (n % 170 === 0) store.checkpoint()
  }
  // The last group and 9 message keys of the outbox are in use; the inbox is empty and the rows went with their epoch.
  const last = secrets.all.at(-1)!
  const held = new Set([last, ...store.load().channels[0]!.outbox.map(({ messageKey }) => messageKey)].map(text))
  const old = secrets.all.filter((secret) => !held.has(text(secret)))
  assert.equal(held.size, 10)
  assert.equal(await remaining(store, directory, old), 0)
  store.close()
})

/** What the application has read, all at once. */
function settled(after: number, last: number): Change[] {
  return Array.from({ length: last - after }, (_, at) => ({
    type: 'dropInbox',
    id: CHANNEL,
    place: { index: after + at + 1, part: 0 },
  }))
}

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
