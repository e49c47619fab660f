import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { sodium } from '@static/node/sodium'
import type { SealedSigningKey, SigningKeyStore } from '../src/ports.ts'
import { seal, unseal } from '../src/secrets/seal.ts'
import { KeyRing } from '../src/secrets/signing-keys.ts'
import { makeTagger } from '../src/secrets/tag.ts'

const DAY = 24 * 3600_000

/** A table in memory with the one rule that the database keeps: a generation is made once. */
function table(): SigningKeyStore & { rows: SealedSigningKey[] } {
  const rows: SealedSigningKey[] = []
  return {
    rows,
    all: async () => [...rows],
    add: async (key) => {
      if (rows.some(({ generation }) => generation === key.generation)) return false
      rows.push(key)
      return true
    },
    removeBefore: async (generation) => {
      while (rows[0] && rows[0].generation < generation) rows.shift()
    },
  }
}

test('a tag is the same for the same secret within one process, and differs everywhere else', () => {
  for (const library of [undefined, sodium]) {
    const tag = makeTagger(library)
    assert.equal(tag('secret'), tag('secret'))
    assert.notEqual(tag('secret'), tag('secreu'))
    assert.notEqual(tag('secret'), makeTagger(library)('secret'))
    assert.equal(tag('secret').length, 32)
  }
})

test('two nodes that start concurrently agree on one key', async () => {
  const store = table()
  const options = { store, masterKey: randomBytes(32), now: () => 0, lifetime: 30 * DAY }
  const rings = await Promise.all([KeyRing.open(options), KeyRing.open(options), KeyRing.open(options)])
  assert.equal(store.rows.length, 1)
  for (const ring of rings) assert.deepEqual(ring.jwks(), rings[0]?.jwks())
})

test('a service that was down on the day of a rotation still gives a full day of notice', async () => {
  const clock = { now: 0 }
  const store = table()
  const options = { store, masterKey: randomBytes(32), now: () => clock.now, lifetime: 30 * DAY }
  await KeyRing.open(options)
  clock.now = 100 * DAY
  const ring = await KeyRing.open(options)
  assert.equal(store.rows[1]?.activeFrom, 101 * DAY)
  assert.equal(ring.jwks().keys.length, 2)
})

test('a node whose clock is far ahead does not stop the rotation on the others', async () => {
  const clock = { now: 0 }
  const store = table()
  const options = { store, masterKey: randomBytes(32), now: () => clock.now, lifetime: 30 * DAY }
  const ring = await KeyRing.open(options)
  await KeyRing.open({ ...options, now: () => 365 * DAY })
  assert.equal(store.rows.length, 2)
  const kids = new Set<string>()
  for (let day = 0; day < 100; day++) {
    clock.now = day * DAY
    await ring.refresh()
    const claims = {
      sub: '',
      plan: 'free',
      iss: 'static-api',
      aud: 'static-relay',
      exp: 0,
      iat: 0,
      jti: '',
      mode: 'live',
    } as const
    kids.add(ring.sign(claims).split('.')[0] ?? '')
  }
  assert.equal(kids.size, 4, 'a new signer every 30 days')
})

test('private keys are sealed, and another master key does not open them', async () => {
  const store = table()
  const masterKey = randomBytes(32)
  await KeyRing.open({ store, masterKey, now: () => 0, lifetime: DAY * 30 })
  const [row] = store.rows
  assert.ok(row)
  assert.ok(!Buffer.from(row.sealed, 'base64').includes(Buffer.from('302e020100300506032b6570', 'hex')))
  const wrong = KeyRing.open({ store, masterKey: randomBytes(32), now: () => 0, lifetime: DAY * 30 })
  await assert.rejects(wrong, { code: 'store_key_wrong', message: /master key does not open/ })
})

test('a row that was swapped or altered is rejected', async () => {
  const store = table()
  const options = { store, masterKey: randomBytes(32), now: () => 0, lifetime: 30 * DAY }
  await KeyRing.open(options)
  const [row] = store.rows
  assert.ok(row)
  store.rows[0] = { ...row, kid: `${row.kid.slice(0, -1)}${row.kid.endsWith('A') ? 'B' : 'A'}` }
  await assert.rejects(KeyRing.open(options), { code: 'store_key_wrong' })
})

test('data sealed for one purpose cannot be opened for another, or after a change', () => {
  const key = randomBytes(32)
  const sealed = seal(key, Buffer.from('secret'), 'one')
  assert.equal(unseal(key, sealed, 'one').toString(), 'secret')
  assert.throws(() => unseal(key, sealed, 'two'), { code: 'store_key_wrong' })
  const bytes = Buffer.from(sealed, 'base64')
  for (const at of [0, 13, bytes.length - 1]) {
    const altered = Buffer.from(bytes)
    altered.writeUInt8(altered.readUInt8(at) ^ 1, at)
    assert.throws(() => unseal(key, altered.toString('base64'), 'one'), { code: 'store_key_wrong' })
  }
  assert.throws(() => unseal(key, bytes.subarray(0, 20).toString('base64'), 'one'), { code: 'store_key_wrong' })
})
