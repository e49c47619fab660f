/** What opens the database, and what does not. */
import assert from 'node:assert/strict'
import { chmodSync, cpSync, existsSync, readFileSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { addKeySlot, listKeySlots, openDatabaseKey, removeKeySlot, replaceKeySlot } from '../../src/store/keys/slots.ts'
import type { Keyring, KeySource } from '../../src/store/keys/sources.ts'
import { bytesOf, code, filesHolding, makeDirectory, openStore } from './support.ts'

const FILE: KeySource = { type: 'file' }
const PASSPHRASE: KeySource = { type: 'passphrase', passphrase: 'correct horse battery staple' }

function makeKeyring(entries = new Map<string, Uint8Array>()): KeySource & { readonly keyring: Keyring } {
  const keyring: Keyring = {
    get: (name) => Promise.resolve(entries.get(name)),
    set: (name, secret) => Promise.resolve(void entries.set(name, Uint8Array.from(secret))),
  }
  return { type: 'keyring', keyring }
}

async function opens(directory: string, key: KeySource): Promise<void> {
  const store = await openStore(directory, { key })
  store.close()
}

/** A new agent, closed. */
async function agentWith(key: KeySource): Promise<string> {
  const directory = makeDirectory()
  await opens(directory, key)
  return directory
}

test('by default a key file in the directory opens it', async () => {
  const directory = await agentWith(FILE)
  await opens(directory, FILE)
  assert.equal(readFileSync(join(directory, 'agent.key')).length, 32)
  assert.deepEqual(
    listKeySlots(directory).map(({ type }) => type),
    ['file'],
  )
})

test('a key file can be elsewhere, and can be moved', async () => {
  const elsewhere = makeDirectory()
  const path = join(elsewhere, 'key')
  const directory = await agentWith({ type: 'file', path })
  assert.equal(existsSync(join(directory, 'agent.key')), false)
  renameSync(path, join(elsewhere, 'moved'))
  await assert.rejects(opens(directory, { type: 'file', path }), code('store_key_wrong', /does not exist/))
  await opens(directory, { type: 'file', path: join(elsewhere, 'moved') })
})

test('a key file that the operator created is used as it is', async () => {
  const path = join(makeDirectory(), 'key')
  writeFileSync(path, bytesOf('made before'), { mode: 0o600 })
  await agentWith({ type: 'file', path })
  assert.deepEqual(new Uint8Array(readFileSync(path)), bytesOf('made before'))
})

test('a wrong, damaged, missing or readable key file is refused', async () => {
  const directory = await agentWith(FILE)
  const path = join(directory, 'agent.key')
  const good = readFileSync(path)
  writeFileSync(path, bytesOf('another'))
  await assert.rejects(opens(directory, FILE), code('store_key_wrong', /does not open/))
  writeFileSync(path, good.subarray(1))
  await assert.rejects(opens(directory, FILE), code('store_key_wrong', /32 bytes/))
  rmSync(path)
  await assert.rejects(opens(directory, FILE), code('store_key_wrong', /does not exist/))
  assert.equal(existsSync(path), false)
  writeFileSync(path, good, { mode: 0o600 })
  chmodSync(path, 0o640)
  await assert.rejects(opens(directory, FILE), code('store_permissions'))
  chmodSync(path, 0o600)
  await opens(directory, FILE)
})

test('a passphrase opens it, in any Unicode composition; another does not', async () => {
  const directory = await agentWith({ type: 'passphrase', passphrase: 'zwölf Boxkämpfer' })
  await opens(directory, { type: 'passphrase', passphrase: 'zwo\u0308lf Boxka\u0308mpfer' })
  await assert.rejects(opens(directory, PASSPHRASE), code('store_key_wrong', /passphrase does not open/))
  assert.equal(existsSync(join(directory, 'agent.key')), false)
  await assert.rejects(agentWith({ type: 'passphrase', passphrase: '' }), code('invalid_request'))
})

test('a keyring opens it, and nothing replaces it when it fails', async () => {
  const entries = new Map<string, Uint8Array>()
  const source = makeKeyring(entries)
  const directory = await agentWith(source)
  await opens(directory, source)
  assert.equal(existsSync(join(directory, 'agent.key')), false)

  await assert.rejects(opens(directory, makeKeyring()), code('store_key_wrong', /does not contain/))
  await assert.rejects(opens(directory, FILE), code('store_key_wrong', /key file does not open .* Use its keyring/))
  const locked: Keyring = { ...source.keyring, get: () => Promise.reject(new Error('locked')) }
  await assert.rejects(opens(directory, { type: 'keyring', keyring: locked }), code('store_key_wrong', /Unlock it/))
  for (const name of entries.keys()) entries.set(name, bytesOf('another'))
  await assert.rejects(opens(directory, source), code('store_key_wrong', /does not open/))
})

test('a keyring that forgets is noticed before anything is stored under its key', async () => {
  const forgetful: Keyring = { get: () => Promise.resolve(undefined), set: () => Promise.resolve() }
  const directory = makeDirectory()
  await assert.rejects(opens(directory, { type: 'keyring', keyring: forgetful }), code('store_key_wrong'))
  assert.equal(existsSync(join(directory, 'keys.json')), false)
})

test('any of several slots opens it; a removed one does not', async () => {
  const directory = await agentWith(FILE)
  const keyring = makeKeyring()
  await addKeySlot(directory, FILE, PASSPHRASE)
  await addKeySlot(directory, PASSPHRASE, keyring)
  for (const source of [FILE, PASSPHRASE, keyring]) await opens(directory, source)

  const [file] = listKeySlots(directory)
  await removeKeySlot(directory, keyring, file!.id)
  await assert.rejects(opens(directory, FILE), code('store_key_wrong'))
  for (const source of [PASSPHRASE, keyring]) await opens(directory, source)
})

test('the last slot cannot be removed', async () => {
  const directory = await agentWith(FILE)
  const [file] = listKeySlots(directory)
  await assert.rejects(removeKeySlot(directory, FILE, file!.id), code('invalid_request', /last/))
  const keyring = makeKeyring()
  await addKeySlot(directory, FILE, keyring)
  // It would leave only a slot that the caller has not shown to hold the key of.
  await assert.rejects(removeKeySlot(directory, FILE, file!.id), code('store_key_wrong'))
  await assert.rejects(removeKeySlot(directory, FILE, '0'.repeat(16)), code('not_found'))
  await assert.rejects(addKeySlot(directory, PASSPHRASE, keyring), code('store_key_wrong'))
  await opens(directory, FILE)
})

test('slots are limited, and can be changed only while no agent runs', async () => {
  const directory = await agentWith(FILE)
  const store = await openStore(directory)
  await assert.rejects(addKeySlot(directory, FILE, makeKeyring()), code('store_locked'))
  store.close()
  for (let count = 1; count < 8; count++) await addKeySlot(directory, FILE, makeKeyring())
  await assert.rejects(addKeySlot(directory, FILE, makeKeyring()), code('invalid_request', /has 8 key slots/))
  assert.throws(() => listKeySlots(makeDirectory()), code('not_found'))
})

test('a passphrase is changed in one step; the other slots do not change', async () => {
  const directory = await agentWith(FILE)
  await addKeySlot(directory, FILE, PASSPHRASE)
  const [file, passphrase] = listKeySlots(directory)
  const next: KeySource = { type: 'passphrase', passphrase: 'another horse' }
  const changed = await replaceKeySlot(directory, PASSPHRASE, next)
  assert.notEqual(changed.id, passphrase!.id)
  assert.deepEqual(listKeySlots(directory), [file, changed])
  await assert.rejects(opens(directory, PASSPHRASE), code('store_key_wrong', /passphrase does not open/))
  for (const source of [FILE, next]) await opens(directory, source)
  await assert.rejects(replaceKeySlot(directory, PASSPHRASE, next), code('store_key_wrong'))
})

test('a removed slot still opens an earlier copy, and the copy of keys.json still opens the agent', async () => {
  const directory = await agentWith(FILE)
  await addKeySlot(directory, FILE, PASSPHRASE)
  const backup = join(makeDirectory(), 'backup')
  cpSync(directory, backup, { recursive: true })
  const [file] = listKeySlots(directory)
  await removeKeySlot(directory, PASSPHRASE, file!.id)
  await assert.rejects(opens(directory, FILE), code('store_key_wrong'))
  await opens(backup, FILE)
  cpSync(join(backup, 'keys.json'), join(directory, 'keys.json'))
  await opens(directory, FILE)
})

test('a refused change leaves nothing behind', async () => {
  const directory = await agentWith(FILE)
  const path = join(directory, 'second.key')
  const store = await openStore(directory)
  const before = readFileSync(join(directory, 'keys.json'), 'utf8')
  for (const change of [
    addKeySlot(directory, FILE, { type: 'file', path }),
    replaceKeySlot(directory, FILE, { type: 'file', path }),
    removeKeySlot(directory, FILE, '0'.repeat(16)),
  ]) {
    await assert.rejects(change, /agent/)
  }
  assert.equal(existsSync(path), false)
  store.close()
  assert.equal(readFileSync(join(directory, 'keys.json'), 'utf8'), before)
  const nowhere = join(directory, 'nowhere')
  assert.throws(() => listKeySlots(nowhere), code('not_found', /no agent in/))
  assert.equal(existsSync(nowhere), false)
})

test('two concurrent changes never undo each other: one is made, or both', async () => {
  const directory = await agentWith(FILE)
  const changes = await Promise.allSettled([
    addKeySlot(directory, FILE, makeKeyring()),
    addKeySlot(directory, FILE, makeKeyring()),
    addKeySlot(directory, FILE, makeKeyring()),
  ])
  const made = changes.filter(({ status }) => status === 'fulfilled')
  for (const change of changes) if (change.status === 'rejected') code('store_locked')(change.reason)
  assert.ok(made.length >= 1)
  assert.equal(listKeySlots(directory).length, 1 + made.length)
  await opens(directory, FILE)
})

test('a slot with any field changed does not open, and a costly one is not even tried', async () => {
  const directory = await agentWith(PASSPHRASE)
  const path = join(directory, 'keys.json')
  const good = readFileSync(path, 'utf8')
  const changes: ((slot: Record<string, unknown>) => void)[] = [
    (slot) => (slot['passes'] = 2),
    (slot) => (slot['memory'] = 32 * 1024),
    (slot) => (slot['id'] = '0'.repeat(16)),
    (slot) => (slot['salt'] = Buffer.alloc(16).toString('base64')),
    (slot) => (slot['nonce'] = Buffer.alloc(12).toString('base64')),
    (slot) => (slot['wrapped'] = Buffer.alloc(48).toString('base64')),
  ]
  for (const change of changes) {
    const file = JSON.parse(good)
    change(file.slots[0])
    writeFileSync(path, JSON.stringify(file))
    await assert.rejects(opens(directory, PASSPHRASE), code('store_key_wrong'), change.toString())
  }
  for (const damage of ['', '{}', '{"version":2,"slots":[]}', '{"version":1,"slots":[]}', good.slice(0, -20)]) {
    writeFileSync(path, damage)
    await assert.rejects(opens(directory, PASSPHRASE), code('store_corrupt'), damage)
  }
  writeFileSync(path, good.replace('65536', '99999999'))
  await assert.rejects(opens(directory, PASSPHRASE), code('store_corrupt'))
})

test('without keys.json an existing database is not created again', async () => {
  const directory = await agentWith(FILE)
  rmSync(join(directory, 'keys.json'))
  await assert.rejects(opens(directory, FILE), code('store_key_wrong', /keys\.json is missing/))
  assert.equal(existsSync(join(directory, 'keys.json')), false)
})

test('the keys of another agent do not open it', async () => {
  const [one, two] = [await agentWith(FILE), await agentWith(FILE)]
  for (const name of ['keys.json', 'agent.key']) cpSync(join(one, name), join(two, name))
  await assert.rejects(opens(two, FILE), code('store_corrupt', /another database/))
})

test('the database key is in no file, and is the same with every slot', async () => {
  const directory = await agentWith(FILE)
  const keyring = makeKeyring()
  await addKeySlot(directory, FILE, keyring)
  const [byFile, byKeyring] = [await openDatabaseKey(directory, FILE), await openDatabaseKey(directory, keyring)]
  assert.deepEqual(byFile, byKeyring)
  assert.deepEqual(filesHolding(directory, [byFile]), [])
})

test('two concurrent first starts create one agent', async () => {
  const directory = makeDirectory()
  const keys = await Promise.all([openDatabaseKey(directory, PASSPHRASE), openDatabaseKey(directory, PASSPHRASE)])
  assert.deepEqual(keys[0], keys[1])
  assert.equal(listKeySlots(directory).length, 1)
})

test('files left by a killed writer are removed, if they are old and belong to the store', async () => {
  const directory = await agentWith(FILE)
  const leftover = (name: string, age: number): string => {
    const path = join(directory, name)
    writeFileSync(path, 'x', { mode: 0o600 })
    utimesSync(path, Date.now() / 1000 - age, Date.now() / 1000 - age)
    return path
  }
  const old = ['.keys.json.', '.agent.key.', '.agent.opens.'].map((start) =>
    leftover(`${start}${'0'.repeat(16)}.tmp`, 90),
  )
  const kept = [leftover(`.keys.json.${'1'.repeat(16)}.tmp`, 1), leftover('.keys.json.mine.tmp', 90)]
  await opens(directory, FILE)
  assert.deepEqual(old.map(existsSync), [false, false, false])
  assert.deepEqual(kept.map(existsSync), [true, true])
})
