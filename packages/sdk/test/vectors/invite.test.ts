import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChannelName, fromHex, toHex } from '@static/protocol'
import { decodeClaims, encodeClaims } from '../../src/admitting/claims.ts'
import { decodeList, decodeListFrame, encodeList, encodeListFrame, listBytes } from '../../src/admitting/invite-list.ts'
import { boxKeyOf, isBoxKey } from '../../src/joining/proof-box.ts'
import { openProvingRequest, openRequest } from '../../src/joining/request.ts'
import { admissionProof, inviteKeys, joinTag, welcomeTag } from '../../src/admitting/keys.ts'
import { decodeToken, encodeToken } from '../../src/admitting/token.ts'
import { makeEngine } from '../../src/mls/index.ts'
import type { Admit } from '../../src/ports/index.ts'
import { readVectors } from './own.ts'

interface Invite {
  readonly token: {
    readonly admit: Admit
    readonly expires_at_ms: number
    readonly secret: string
    readonly owner: string
    readonly channel_id: string
    readonly name: ChannelName
    readonly relay: string
    readonly text: string
  }
  readonly proving_token: Record<'box_key_hash' | 'text', string>
  readonly keys: Record<'invite_id' | 'admission' | 'members' | 'join' | 'welcome' | 'box' | 'seal', string>
  readonly join: Record<'nonce' | 'key_package' | 'mac' | 'box', string>
  readonly admission: Record<'session_nonce' | 'agent_id' | 'proof', string>
  readonly welcome: Record<'welcome' | 'epoch_authenticator' | 'mac', string>
}

const { token, proving_token: proving, keys: expected, join, admission, welcome } = readVectors('invite.json') as Invite
const keys = inviteKeys(fromHex(token.secret))
const place = { channelId: fromHex(token.channel_id), name: token.name, owner: fromHex(token.owner) }

test('vectors: an invite token', () => {
  const content = {
    ...place,
    admit: token.admit,
    expiresAt: token.expires_at_ms,
    secret: fromHex(token.secret),
    relay: token.relay,
  }
  assert.equal(encodeToken(content), token.text)
  assert.deepEqual(decodeToken(token.text), content)
  const asking = { ...content, admit: 'owner' as const, boxKeyHash: fromHex(proving.box_key_hash) }
  assert.equal(encodeToken(asking), proving.text)
  assert.deepEqual(decodeToken(proving.text), asking)
})

test("vectors: an invite's keys", () => {
  const { inviteId, ...others } = keys
  const made = { invite_id: inviteId, ...others }
  assert.deepEqual(Object.fromEntries(Object.entries(made).map(([name, key]) => [name, toHex(key)])), expected)
})

test('vectors: a join request, its box and its proof', () => {
  const [nonce, keyPackage, box] = [join.nonce, join.key_package, join.box].map(fromHex) as Uint8Array[] & {
    readonly [at in 0 | 1 | 2]: Uint8Array
  }
  assert.equal(toHex(joinTag(keys, place, nonce, keyPackage)), join.mac)
  assert.deepEqual(openRequest(keys, place, box), { nonce, keyPackage })
  const proof = admissionProof(keys, {
    sessionNonce: fromHex(admission.session_nonce),
    agentId: fromHex(admission.agent_id),
    box,
  })
  assert.equal(toHex(proof), admission.proof)
})

test('vectors: a join request that only the owner can open, with a proof and without', async () => {
  type Name = 'about' | 'secret' | 'box_key' | 'box_key_hash' | 'agent_id' | 'proof' | 'box'
  const engine = makeEngine()
  const request = { nonce: fromHex(join.nonce), keyPackage: fromHex(join.key_package) }
  for (const vector of readVectors('proof-box.json') as readonly Readonly<Record<Name, string>>[]) {
    const [secret, boxKey, box] = [vector.secret, vector.box_key, vector.box].map(fromHex) as [
      Uint8Array,
      Uint8Array,
      Uint8Array,
    ]
    assert.equal(toHex(boxKeyOf(secret)), vector.box_key)
    assert.ok(isBoxKey(boxKey, fromHex(vector.box_key_hash)))
    assert.ok(!isBoxKey(boxKey, fromHex(proving.box_key_hash)), 'another key')
    const proof = fromHex(vector.proof)
    const expected = proof.length > 0 ? { ...request, proof } : request
    const open = async (sealed: Uint8Array, agentId = fromHex(vector.agent_id), by = keys, from = place) =>
      await openProvingRequest(engine, { keys: by, place: from, agentId }, secret, sealed)
    assert.deepEqual(await open(box), expected, vector.about)
    for (const at of [0, 1, 600, 1089, 1130, box.length - 1]) {
      assert.equal(await open(box.map((byte, index) => (index === at ? byte ^ 1 : byte))), undefined, `byte ${at}`)
      assert.equal(await open(box.subarray(0, at)), undefined, `only ${at}`)
    }
    assert.equal(await open(box, fromHex(token.owner)), undefined, 'of another joiner')
    assert.equal(await open(box, undefined, { ...keys, box: keys.seal }), undefined, 'without the token')
    assert.equal(
      await open(box, undefined, keys, { ...place, owner: fromHex(vector.agent_id) }),
      undefined,
      'another owner',
    )
    const other = Uint8Array.from(secret)
    for (const at of [5, 40]) {
      other[at]! ^= 1
      assert.equal(
        await openProvingRequest(engine, { keys, place, agentId: fromHex(vector.agent_id) }, other, box),
        undefined,
      )
      other[at]! ^= 1
    }
    assert.equal(openRequest(keys, place, box), undefined, 'with the token alone')
  }
})

test('vectors: the MAC of a Welcome', () => {
  const tag = welcomeTag(
    keys,
    fromHex(join.key_package),
    fromHex(welcome.welcome),
    fromHex(welcome.epoch_authenticator),
  )
  assert.equal(toHex(tag), welcome.mac)
})

test('vectors: lists of invites, signed and in frames', () => {
  interface List {
    readonly about: string
    readonly channel_id: string
    readonly number: number
    readonly slot: number
    readonly invites: readonly (Record<'invite_id' | 'members_key', string> &
      Record<'expires_at_ms' | 'uses', number>)[]
    readonly bytes: string
    readonly signature: string
    readonly counts_slot: number
    readonly counts: readonly (number | null)[]
    readonly payload: string
  }
  for (const vector of readVectors('invite-list.json') as List[]) {
    const { about, number, slot } = vector
    const invites = vector.invites.map(({ invite_id, members_key, expires_at_ms, uses }) => ({
      id: invite_id,
      members: fromHex(members_key),
      expiresAt: expires_at_ms,
      maxUses: uses,
    }))
    const list = { number, slot, invites }
    assert.equal(toHex(listBytes(fromHex(vector.channel_id), list)), vector.bytes, about)
    const signed = Buffer.concat([encodeList(list), fromHex(vector.signature)])
    const counts = vector.counts.map((count) => count ?? undefined)
    assert.equal(toHex(encodeListFrame(signed, vector.counts_slot, counts)), vector.payload, about)
    const frame = decodeListFrame(fromHex(vector.payload)) ?? assert.fail(about)
    assert.deepEqual(
      frame.counts,
      counts.map((count) => (count === undefined ? undefined : { slot: vector.counts_slot, count })),
    )
    const { signature, ...decoded } = decodeList(frame.signed) ?? assert.fail(about)
    assert.deepEqual(decoded, list, about)
    assert.equal(toHex(signature), vector.signature, about)
  }
})

test('vectors: claims', () => {
  interface Vector {
    readonly about: string
    readonly claims: readonly Record<'invite_id' | 'agent_id', string>[]
    readonly payload: string
  }
  for (const vector of readVectors('claim.json') as Vector[]) {
    const claims = vector.claims.map(({ invite_id, agent_id }) => ({ invite: invite_id, agent: agent_id }))
    assert.equal(toHex(encodeClaims(claims)), vector.payload, vector.about)
    assert.deepEqual(decodeClaims(fromHex(vector.payload)), claims, vector.about)
  }
})
