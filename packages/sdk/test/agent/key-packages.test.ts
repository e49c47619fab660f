import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toHex } from '@static/protocol'
import { Journal } from '../../src/channel/journal.ts'
import { KeyPackages } from '../../src/agent/key-packages.ts'
import type { KeyPackageRecord } from '../../src/ports/index.ts'
import { makeMemoryStore } from '@static/testkit/store/agent-memory'
import { Agent, channelOf, engine } from '../mls/support.ts'

const DAY = 86_400_000

/** An agent's KeyPackages, with a store that they are in. */
function scene(
  now: number = Date.now(),
  stored: readonly KeyPackageRecord[] = [],
): { keyPackages: KeyPackages; refs: () => string[] } {
  const { identity, key } = new Agent('joe')
  const store = makeMemoryStore({ identity, publicKey: key.publicKey, secretKey: key.seed })
  for (const record of stored) store.write([{ type: 'putKeyPackage', record }])
  const journal = new Journal(store, assert.fail)
  const keyPackages = new KeyPackages({ engine, key, journal, now: () => now }, identity, stored)
  const refs = (): string[] => {
    journal.flush()
    return store.load().keyPackages.map(({ ref }) => ref)
  }
  return { keyPackages, refs }
}

test('a KeyPackage is on disk before it is handed out, is found by its Welcome, and is used once', async () => {
  const { keyPackages, refs } = scene()
  const made = await keyPackages.make(true)
  const other = await keyPackages.make(false)
  assert.equal(made.pooled, true)
  assert.deepEqual(refs().sort(), [made.ref, other.ref].sort())
  const { agents } = await channelOf('owner')
  const pending = await agents[0]!.commit({ adds: [made.keyPackage] })
  const { welcome } = pending.welcomes[0]!
  assert.equal(keyPackages.forWelcome(welcome).ref, made.ref)
  keyPackages.spend(made.ref)
  assert.deepEqual(refs(), [other.ref])
  assert.deepEqual(made.privatePart, new Uint8Array(made.privatePart.length))
  assert.throws(() => keyPackages.forWelcome(welcome), { code: 'invalid_welcome', message: /already used/ })
  assert.throws(() => keyPackages.forWelcome(new Uint8Array(40)), { code: 'invalid_welcome', message: /not a Welcome/ })
})

test('a KeyPackage is useless after 90 days and is deleted at the next start', async () => {
  const { keyPackages } = scene()
  const old = await keyPackages.make(false)
  const stored = [
    { ...old, ref: '01', createdAt: old.createdAt - 90 * DAY - 1 },
    { ...old, ref: '02', createdAt: old.createdAt - 90 * DAY },
  ]
  assert.deepEqual(scene(old.createdAt, stored).refs(), ['02'])
})

test('two KeyPackages created at the same time are distinct', async () => {
  const { keyPackages, refs } = scene()
  const made = await Promise.all([keyPackages.make(true), keyPackages.make(true)])
  assert.equal(new Set(made.map(({ keyPackage }) => toHex(keyPackage))).size, 2)
  assert.equal(refs().length, 2)
})

test('pooled KeyPackages are limited to those that can be in use; the oldest are deleted first', async () => {
  const { keyPackages } = scene()
  const made = await keyPackages.make(true)
  const refs = Array.from({ length: 1024 }, (_, n) => n.toString(16).padStart(64, '0'))
  const stored = refs.map((ref) => ({ ...made, ref, privatePart: Uint8Array.from(made.privatePart) }))
  const handedOver = { ...made, ref: 'ff'.repeat(32), pooled: false, privatePart: Uint8Array.from(made.privatePart) }
  const full = scene(made.createdAt, [handedOver, ...stored])
  const next = await full.keyPackages.make(true)
  assert.deepEqual(full.refs().sort(), [handedOver.ref, ...refs.slice(1), next.ref].sort())
  assert.deepEqual(stored[0]!.privatePart, new Uint8Array(made.privatePart.length))
})

test('a KeyPackage with a Welcome that is kept is not deleted, however many are created after it', async () => {
  const { keyPackages } = scene()
  const made = await keyPackages.make(true)
  const refs = Array.from({ length: 1024 }, (_, n) => n.toString(16).padStart(64, '0'))
  const stored = refs.map((ref) => ({ ...made, ref, privatePart: Uint8Array.from(made.privatePart) }))
  const full = scene(made.createdAt, stored)
  full.keyPackages.reserve(refs[0]!)
  for (let times = 0; times < 3; times++) await full.keyPackages.make(true)
  assert.deepEqual(
    full.refs().filter((ref) => refs.includes(ref)),
    [refs[0], ...refs.slice(3)],
  )
  assert.deepEqual(stored[0]!.privatePart, made.privatePart)
})
