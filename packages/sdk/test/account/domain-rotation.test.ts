/** A domain replaces its key, and nobody who believes it is asked anything. */
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { DomainStore } from '../../src/account/trust/domain-store.ts'
import { afterFetch, type KeyState, NO_KEYS, usableKeys } from '../../src/proofs/key-state.ts'
import { MOST_DOMAIN_KEYS, thumbprintOf } from '../../src/proofs/keys.ts'
import { parseRoot } from '../../src/proofs/roots.ts'
import { Agent, lineOf, verdictOn } from '../proofs/scene.ts'

const DAY = 86_400_000
const now = Date.now()
const home = mkdtempSync(join(tmpdir(), 'static-rotation-'))
after(() => rmSync(home, { recursive: true, force: true }))
const root = parseRoot('acme.example')
const alice = new Agent()

function domainIn(name: string): DomainStore {
  const domain = new DomainStore(join(home, name), 'acme.example')
  domain.init()
  return domain
}

/** What a believer knows after it has fetched the file. */
function fetched(domain: DomainStore, state: KeyState, at = now): KeyState {
  return afterFetch(root, state, { bytes: Buffer.from(domain.publicFile(at)) }, at)
}

async function lineFor(jwt: string, state: KeyState): Promise<string> {
  const proof = await alice.proof('statement', () => jwt)
  return lineOf(await verdictOn(proof, alice.context(), [{ root, state }], now + 1000))
}

test('each step of a rotation is one that believers take without a person', async () => {
  const domain = domainIn('steps')
  const about = { agentId: alice.id, subject: 'deployer' }
  const first = await domain.sign(about, 30, now)
  const [old] = domain.keySet(now).keys
  let state = fetched(domain, NO_KEYS)
  const next = domain.beginRotation(now)
  assert.equal(domain.beginRotation(now), next, 'one that was begun goes on')
  assert.deepEqual(domain.keySet(now).keys.map(thumbprintOf), [old && thumbprintOf(old), next])
  const second = await domain.sign(about, 30, now)
  assert.match(await lineFor(second, state), /^checked/, 'it does not sign before it is known')
  assert.throws(() => domain.finishRotation(state.accepted?.keys ?? [], now), /has not published the next key yet/)
  state = fetched(domain, state)
  domain.finishRotation(state.accepted?.keys ?? [], now)
  assert.equal(domain.nextKey, undefined)
  const third = await domain.sign(about, 30, now)
  assert.match(await lineFor(third, state), /^checked/, 'who has fetched the file since knows it')
  state = fetched(domain, state)
  assert.ok(await domain.hasSigned(first, now))
  for (const jwt of [first, second, third]) assert.match(await lineFor(jwt, state), /^checked/)
  domain.dropRetired()
  state = fetched(domain, state)
  assert.equal(state.waiting, undefined)
  assert.ok(typeof usableKeys(state, now) !== 'string')
  assert.equal(await lineFor(first, state), 'unchecked: its key is not among those of its issuer')
  assert.match(await lineFor(third, state), /^checked/)
  assert.equal(await domain.hasSigned(first, now), false)
})

test('a key that signs no more is published until all that it has signed has ended', () => {
  const domain = domainIn('ends')
  const [old] = domain.keySet(now).keys
  domain.beginRotation(now)
  domain.finishRotation(domain.keySet(now).keys, now)
  const has = (at: number): boolean => domain.keySet(at).keys.some((key) => key.kid === old?.kid)
  assert.ok(has(now + 89 * DAY) && !has(now + 91 * DAY))
  const folder = join(home, 'ends', 'acme.example', 'retired')
  domain.sweep(now + 89 * DAY)
  assert.equal(readdirSync(folder).length, 1)
  domain.sweep(now + 91 * DAY)
  assert.deepEqual(readdirSync(folder), [])
})

test('a crash between the steps of a rotation loses no key and publishes none twice', () => {
  const domain = domainIn('crash')
  const place = join(home, 'crash', 'acme.example')
  const [old] = domain.keySet(now).keys
  const next = domain.beginRotation(now)
  copyFileSync(join(place, 'next.json'), join(home, 'next.json'))
  domain.finishRotation(domain.keySet(now).keys, now)
  // It was killed before it removed the file.
  copyFileSync(join(home, 'next.json'), join(place, 'next.json'))
  const kids = domain.keySet(now).keys.map(({ kid }) => kid)
  assert.deepEqual(kids, [next, old?.kid])
  assert.notEqual(domain.beginRotation(now), next)
  assert.ok(existsSync(join(place, 'next.json')))
})

test('a domain has no more keys than a file may have', () => {
  const domain = domainIn('many')
  assert.throws(() => domain.finishRotation(domain.keySet(now).keys, now), /There is no next key/)
  for (let count = 1; count < MOST_DOMAIN_KEYS; count++) {
    domain.beginRotation(now)
    domain.finishRotation(domain.keySet(now).keys, now)
  }
  assert.equal(domain.keySet(now).keys.length, MOST_DOMAIN_KEYS)
  assert.throws(() => domain.beginRotation(now), /has 8 keys already/)
  domain.dropRetired()
  domain.beginRotation(now)
})
