import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SEED } from '@static/testkit/random'
import { BOX_SECRET_BYTES, boxKeyOf, sealProofBox } from '../../src/joining/proof-box.ts'
import {
  type JoinRequest,
  openProvingRequest,
  openRequest,
  sealProvingRequest,
  sealRequest,
} from '../../src/joining/request.ts'
import { type AdmitKeys, inviteKeys, joinTag, sealBox } from '../../src/admitting/keys.ts'
import { makeEngine } from '../../src/mls/index.ts'
import { MAX_PROOF_BYTES } from '../../src/proofs/proof.ts'

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

const ENGINE = makeEngine()
const SECRET = fill(BOX_SECRET_BYTES, 4)
const PROVING = { keys: KEYS, place: PLACE, agentId: fill(32, 5) }

test('a box with a proof is as long as one without: the relay does not learn whose proof it may be', async () => {
  const lengths = new Set<number>()
  for (const length of [0, 1, 416, 1917, MAX_PROOF_BYTES]) {
    const request = length === 0 ? REQUEST : { ...REQUEST, proof: fill(length, 6) }
    const box = await sealProvingRequest(ENGINE, PROVING, boxKeyOf(SECRET), request)
    assert.deepEqual(await openProvingRequest(ENGINE, PROVING, SECRET, box), request)
    lengths.add(box.length)
  }
  assert.equal(lengths.size, 1, `${[...lengths].join(', ')} bytes`)
})

test('a request with a proof has one form: other lengths and other padding are refused', async () => {
  const { nonce, keyPackage } = REQUEST
  const head = [...nonce, ...joinTag(KEYS, PLACE, nonce, keyPackage), 0, keyPackage.length, ...keyPackage]
  const opened = async (length: number, shown: Uint8Array, more: readonly number[] = []): Promise<unknown> => {
    const content = Uint8Array.from([...head, length >> 8, length & 0xff, ...shown, ...more])
    const box = await sealProofBox(ENGINE, PROVING, boxKeyOf(SECRET), content)
    return await openProvingRequest(ENGINE, PROVING, SECRET, box)
  }
  const shown = fill(MAX_PROOF_BYTES, 0).fill(6, 0, 90)
  assert.deepEqual(await opened(90, shown), { ...REQUEST, proof: fill(90, 6) })
  assert.equal(await opened(89, shown), undefined, 'a byte behind the proof')
  assert.equal(await opened(90, shown.with(MAX_PROOF_BYTES - 1, 1)), undefined, 'a byte at the end')
  assert.equal(await opened(0, shown), undefined, 'a proof without a length')
  assert.equal(await opened(MAX_PROOF_BYTES + 1, shown), undefined, 'longer than a proof can be')
  assert.equal(await opened(90, shown, [0]), undefined, 'a byte too many')
  assert.equal(await opened(90, shown.subarray(1)), undefined, 'a byte too few')
  assert.equal(await opened(90, shown.subarray(0, 90)), undefined, 'no padding')
  assert.equal(await opened(0, new Uint8Array()), undefined, 'nothing behind the KeyPackage')
})
