import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sameBytes } from '@static/node/compare'
import {
  admissionProof,
  type InviteKeys,
  inviteKeys,
  joinTag,
  sealBox,
  openBox,
  welcomeTag,
} from '../../src/admitting/keys.ts'

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const fill = (length: number, value: number): Uint8Array => new Uint8Array(length).fill(value)
const words = (text: string): Uint8Array => new TextEncoder().encode(text)

const SECRET = Uint8Array.from({ length: 32 }, (_, at) => at)
const KEYS = inviteKeys(SECRET)
/** Made from SPEC.md 6.2 by another program (Python's hmac and hashlib), not by this one. */
const VECTORS: Readonly<Record<keyof InviteKeys, string>> = {
  inviteId: '444980b4d49affee304bf44ee19c95fe',
  admission: 'edcaa0ec45d666defecc1951748178d67b13ae52b62634dcd6227e1111c4669e',
  members: 'f3484a4eeca13d944b139b7cc145b551336ba6ff44dee62fa1de2fca1fdae9ba',
  join: '4a6bd416bc6065ff6b633983ccb20e0ba34e51054b99c78dd3e60b0e69a9edd0',
  welcome: 'eb295f75fb8c6688bba080f3cb4c164a252ca95d0115487c12c02a334bb00173',
  box: '6ddba3723e981ee764be4a4bbd96a6108bd5d3223425af383099f6e7319a384e',
  seal: 'faab364b8cd809333b9b7a7c42c56cb8437e7c69d73358a400795dbb1315495e',
}

const PLACE = { channelId: fill(16, 1), name: 'acme/support/routing', owner: fill(32, 2) }
const NONCE = fill(16, 3)
const KEY_PACKAGE = words('key package')
const WELCOME = words('welcome')
const AUTHENTICATOR = fill(32, 4)
const REQUEST = { sessionNonce: fill(32, 5), agentId: fill(32, 6), box: words('box') }

/** Other bytes of the same length, one less and one more. */
function others(bytes: Uint8Array): Uint8Array[] {
  const flipped = Uint8Array.from(bytes)
  flipped[flipped.length - 1] = (flipped.at(-1) ?? 0) ^ 1
  return [flipped, bytes.slice(0, -1), Uint8Array.from([...bytes, 1])]
}

/** All of them differ. */
function allDiffer(tags: readonly Uint8Array[]): void {
  assert.equal(new Set(tags.map(hex)).size, tags.length)
}

test('the keys of a secret match their test vector', () => {
  for (const [name, expected] of Object.entries(VECTORS)) {
    assert.equal(hex(KEYS[name as keyof InviteKeys]), expected, name)
  }
})

test('the keys of a secret differ from each other and from those of another secret', () => {
  const other = inviteKeys(Uint8Array.from(SECRET, (value, at) => (at === 31 ? value ^ 1 : value)))
  const ids = [KEYS, other].flatMap((keys) => Object.values<Uint8Array>({ ...keys }).map((key) => key.slice(0, 16)))
  allDiffer(ids)
})

test('the values that the relay knows reveal none of the others', () => {
  // As a secret, for a start: its keys are all different from those of the invite.
  const derived = [inviteKeys(KEYS.admission), inviteKeys(KEYS.inviteId)]
  const known = [KEYS.admission, KEYS.inviteId, ...derived.flatMap((keys) => Object.values<Uint8Array>({ ...keys }))]
  for (const key of [KEYS.join, KEYS.welcome, KEYS.box, KEYS.seal])
    for (const one of known) assert.notEqual(hex(one), hex(key))
  // Nor does it do in their place.
  const { admission } = KEYS
  const relays = { ...KEYS, join: admission, welcome: admission, box: admission }
  assert.equal(openBox(relays, sealBox(KEYS, words('secret'))), undefined)
  assert.equal(openBox(KEYS, sealBox(relays, words('forged'))), undefined)
  assert.notDeepEqual(joinTag(relays, PLACE, NONCE, KEY_PACKAGE), joinTag(KEYS, PLACE, NONCE, KEY_PACKAGE))
  assert.notDeepEqual(
    welcomeTag(relays, KEY_PACKAGE, WELCOME, AUTHENTICATOR),
    welcomeTag(KEYS, KEY_PACKAGE, WELCOME, AUTHENTICATOR),
  )
})

test('the tags of a request match their test vector', () => {
  // Made as the vectors above.
  assert.equal(
    hex(joinTag(KEYS, PLACE, NONCE, KEY_PACKAGE)),
    '433a70dd375c21541745ca30bbd33abf898eca74047ff37ad12080909cc92e68',
  )
  assert.equal(
    hex(welcomeTag(KEYS, KEY_PACKAGE, WELCOME, AUTHENTICATOR)),
    '4c5810c3de1264ab300f3441b5edc171edd6619cda9b9c823b3b0556e7e3d7e5',
  )
  assert.equal(hex(admissionProof(KEYS, REQUEST)), 'c7ee1e28fb24d04aa24d28280af0e212623b1cfe1d9ccc2a0fe1c7a30920a017')
})

test('the tag of a request depends on every field', () => {
  const { channelId, name, owner } = PLACE
  const tag = (keys: InviteKeys, place = PLACE, nonce = NONCE, keyPackage = KEY_PACKAGE): Uint8Array =>
    joinTag(keys, place, nonce, keyPackage)
  allDiffer([
    tag(KEYS),
    ...others(KEYS.join).map((join) => tag({ ...KEYS, join })),
    ...others(KEYS.inviteId).map((inviteId) => tag({ ...KEYS, inviteId })),
    ...others(channelId).map((other) => tag(KEYS, { ...PLACE, channelId: other })),
    ...others(owner).map((other) => tag(KEYS, { ...PLACE, owner: other })),
    ...['acme/support/routinf', 'acme/support/routin', `${name}0`].map((other) => tag(KEYS, { ...PLACE, name: other })),
    ...others(NONCE).map((nonce) => tag(KEYS, PLACE, nonce)),
    ...others(KEY_PACKAGE).map((keyPackage) => tag(KEYS, PLACE, NONCE, keyPackage)),
    // What ends one field does not begin the next.
    tag(KEYS, PLACE, NONCE.slice(0, -1), Uint8Array.from([NONCE.at(-1) ?? 0, ...KEY_PACKAGE])),
  ])
})

test('the tag of a Welcome depends on every field', () => {
  const tag = (keys: InviteKeys, keyPackage = KEY_PACKAGE, welcome = WELCOME, authenticator = AUTHENTICATOR) =>
    welcomeTag(keys, keyPackage, welcome, authenticator)
  allDiffer([
    tag(KEYS),
    ...others(KEYS.welcome).map((welcome) => tag({ ...KEYS, welcome })),
    ...others(KEYS.inviteId).map((inviteId) => tag({ ...KEYS, inviteId })),
    ...others(KEY_PACKAGE).map((keyPackage) => tag(KEYS, keyPackage)),
    ...others(WELCOME).map((welcome) => tag(KEYS, KEY_PACKAGE, welcome)),
    ...others(AUTHENTICATOR).map((authenticator) => tag(KEYS, KEY_PACKAGE, WELCOME, authenticator)),
    tag(KEYS, KEY_PACKAGE, WELCOME.slice(0, -1), Uint8Array.from([WELCOME.at(-1) ?? 0, ...AUTHENTICATOR])),
  ])
})

test('the proof for the relay depends on every field', () => {
  const { sessionNonce, agentId, box } = REQUEST
  allDiffer([
    admissionProof(KEYS, REQUEST),
    ...others(KEYS.admission).map((admission) => admissionProof({ ...KEYS, admission }, REQUEST)),
    ...others(KEYS.inviteId).map((inviteId) => admissionProof({ ...KEYS, inviteId }, REQUEST)),
    ...others(sessionNonce).map((other) => admissionProof(KEYS, { ...REQUEST, sessionNonce: other })),
    ...others(agentId).map((other) => admissionProof(KEYS, { ...REQUEST, agentId: other })),
    ...others(box).map((other) => admissionProof(KEYS, { ...REQUEST, box: other })),
  ])
})

test('a box is bound to its invite by more than the key', () => {
  const box = sealBox(KEYS, words('secret'))
  assert.deepEqual(openBox(KEYS, box), words('secret'))
  for (const inviteId of others(KEYS.inviteId)) assert.equal(openBox({ ...KEYS, inviteId }, box), undefined)
})

test('tags are equal only if every byte is', () => {
  const tag = joinTag(KEYS, PLACE, NONCE, KEY_PACKAGE)
  assert.ok(sameBytes(tag, Uint8Array.from(tag)))
  for (let at = 0; at < tag.length; at++) {
    assert.ok(
      !sameBytes(
        tag,
        tag.map((value, place) => (place === at ? value ^ 1 : value)),
      ),
    )
  }
  for (const other of [...others(tag), new Uint8Array()]) assert.ok(!sameBytes(tag, other))
})
