import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SEED } from '@static/testkit/random'
import { type JoinRequest, openRequest, sealRequest } from '../../src/joining/request.ts'
import { type AdmitKeys, inviteKeys, joinTag, sealBox } from '../../src/admitting/keys.ts'

const fill = (length: number, value: number): Uint8Array => new Uint8Array(length).fill(value)
const KEYS = inviteKeys(fill(32, 1))
const PLACE = { channelId: fill(16, 1), name: 'acme/support/routing', owner: fill(32, 2) }
const REQUEST: JoinRequest = { nonce: fill(16, 3), keyPackage: new TextEncoder().encode('a KeyPackage') }
const BOX = sealRequest(KEYS, PLACE, REQUEST)

test('a holder of the token can open a sealed request', (t) => {
  t.diagnostic(`seed ${SEED}`)
  const bytes = (length: number): fc.Arbitrary<Uint8Array> => fc.uint8Array({ minLength: length, maxLength: length })
  const keyPackages = fc.uint8Array({ minLength: 1, maxLength: 2000 })
  fc.assert(
    fc.property(
      bytes(32),
      bytes(16),
      bytes(32),
      bytes(16),
      keyPackages,
      (secret, channelId, owner, nonce, keyPackage) => {
        const place = { channelId, name: 'acme/support/routing', owner }
        const box = sealRequest(inviteKeys(secret), place, { nonce, keyPackage })
        assert.deepEqual(openRequest(inviteKeys(secret), place, box), { nonce, keyPackage })
      },
    ),
    { seed: SEED },
  )
})

test('sealing the same request twice gives different boxes', () => {
  assert.notDeepEqual(sealRequest(KEYS, PLACE, REQUEST), BOX)
})

test('a box with a flipped bit, cut short or extended is refused', () => {
  for (let at = 0; at < BOX.length; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const flipped = BOX.map((value, place) => (place === at ? value ^ (1 << bit) : value))
      assert.equal(openRequest(KEYS, PLACE, flipped), undefined, `bit ${bit} of byte ${at}`)
    }
    assert.equal(openRequest(KEYS, PLACE, BOX.subarray(0, at)), undefined, `only ${at}`)
    assert.equal(openRequest(KEYS, PLACE, BOX.subarray(at + 1)), undefined, `from ${at + 1}`)
  }
  assert.equal(openRequest(KEYS, PLACE, Uint8Array.from([...BOX, 0])), undefined)
})

test("another invite's keys do not open a box, nor does any single one of them", () => {
  const other = inviteKeys(fill(32, 9))
  assert.equal(openRequest(other, PLACE, BOX), undefined)
  for (const name of ['box', 'inviteId', 'join'] satisfies (keyof AdmitKeys)[]) {
    assert.equal(openRequest({ ...KEYS, [name]: other[name] }, PLACE, BOX), undefined, name)
  }
  // Those that have no part in it.
  assert.deepEqual(openRequest({ ...KEYS, welcome: other.welcome }, PLACE, BOX), REQUEST)
})

test('a box for another channel, owner or name is refused', () => {
  const places = {
    'another channel': { ...PLACE, channelId: fill(16, 7) },
    'another owner': { ...PLACE, owner: fill(32, 7) },
    'another name': { ...PLACE, name: 'acme/support/other' },
  }
  for (const [what, place] of Object.entries(places)) {
    assert.equal(openRequest(KEYS, place, BOX), undefined, what)
    assert.equal(openRequest(KEYS, PLACE, sealRequest(KEYS, place, REQUEST)), undefined, what)
  }
})

test('a box by a holder of Kbox alone is refused, because the tag needs Kjoin', () => {
  const forge = (keys: AdmitKeys): Uint8Array => {
    const tag = joinTag(keys, PLACE, REQUEST.nonce, REQUEST.keyPackage)
    return sealBox(KEYS, Buffer.concat([REQUEST.nonce, tag, REQUEST.keyPackage]))
  }
  assert.deepEqual(openRequest(KEYS, PLACE, forge(KEYS)), REQUEST)
  assert.equal(openRequest(KEYS, PLACE, forge({ ...KEYS, join: KEYS.box })), undefined)
})

test('a box with too little content is refused', () => {
  const empty = { ...REQUEST, keyPackage: new Uint8Array() }
  assert.equal(openRequest(KEYS, PLACE, sealRequest(KEYS, PLACE, empty)), undefined)
  for (const length of [0, 1, 16, 47]) assert.equal(openRequest(KEYS, PLACE, sealBox(KEYS, fill(length, 1))), undefined)
})
