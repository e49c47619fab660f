import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { createCommit, createGroup, type ClientState, type Extension, type KeyPackage, type Welcome } from 'ts-mls'
import { generateSignatureKeyPair } from '@static/node/ed25519'
import { FOUNDER_IDENTITY } from '../../src/mls/credential.ts'
import type { NewKeyPackage } from '../../src/mls/engine.ts'
import { CONFIG } from '../../src/mls/ts-mls/config.ts'
import { makeKeyPackage } from '../../src/mls/ts-mls/key-package.ts'
import { decodeMessage, encodeKeyPackage, encodeWelcome } from '../../src/mls/ts-mls/message.ts'
import { ownedBy } from '../../src/mls/channel-context.ts'
import { contextExtensions } from '../../src/mls/ts-mls/view.ts'
import { crypto } from './attacker.ts'
import { sealedFor } from './sealing.ts'
import { Agent, channelOf, engine, hex, makeChannel, NAME, text } from './support.ts'

const { provider } = crypto
const INVALID = { code: 'invalid_welcome' }

const publicOf = ({ keyPackage }: NewKeyPackage): KeyPackage => decodeMessage('mls_key_package', keyPackage)!.keyPackage

/** A group by the library alone, made by a leaf of this identity. */
async function group(
  maker: Uint8Array,
  owner: Uint8Array,
  extensions: Extension[] = contextExtensions({ name: NAME, ...ownedBy(owner) }),
): Promise<ClientState> {
  const key = generateSignatureKeyPair()
  const { publicPackage, privatePackage } = await makeKeyPackage(crypto, maker, key, Date.now())
  return createGroup(randomBytes(16), publicPackage, privatePackage, extensions, provider, CONFIG)
}

/** The Welcome is sealed to the last one. */
async function addTo(state: ClientState, ...keyPackages: KeyPackage[]): Promise<[Uint8Array, ClientState]> {
  const [welcome, next] = await addBare(state, ...keyPackages)
  return [await sealedFor(encodeKeyPackage(keyPackages.at(-1)!), welcome), next]
}

async function addBare(state: ClientState, ...keyPackages: KeyPackage[]): Promise<[Welcome, ClientState]> {
  const extraProposals = keyPackages.map((keyPackage) => ({ proposalType: 'add' as const, add: { keyPackage } }))
  const made = await createCommit({ state, cipherSuite: provider }, { extraProposals, ratchetTreeExtension: true })
  return [made.welcome!, made.newState]
}

test('a relay that slips its own leaf into a new channel is detected', async () => {
  const owner = new Agent('owner')
  const own = await owner.keyPackage()
  const ghost = await new Agent('ghost').keyPackage()
  const [welcome] = await addBare(await group(FOUNDER_IDENTITY, owner.agentId), publicOf(own), publicOf(ghost))
  await assert.rejects(owner.join(encodeWelcome(welcome), own, { founding: true }), {
    ...INVALID,
    message: /other members/,
  })
  const [unmarked] = await addBare(await group(text('relay'), owner.agentId), publicOf(own))
  await assert.rejects(owner.join(encodeWelcome(unmarked), own, { founding: true }), {
    ...INVALID,
    message: /founder leaf did not sign/,
  })
})

test("a fake group with the owner's real key on a leaf is refused by its signer, not by its members", async () => {
  const [owner, bob] = [new Agent('owner'), new Agent('bob')]
  const [planted, own] = [await owner.keyPackage(), await bob.keyPackage()]
  const mallory = await group(text('mallory'), owner.agentId)
  const [, withOwner] = await addTo(mallory, publicOf(planted))
  const [welcome] = await addTo(withOwner, publicOf(own))
  const expected = { name: NAME, owner: owner.agentId }
  await assert.rejects(bob.join(welcome, own, { ...expected, signer: owner.agentId }), {
    ...INVALID,
    message: /made by/,
  })
  // Nor is it believed that the owner's leaf is there by the owner's will.
  await assert.rejects(bob.join(welcome, own, expected), { ...INVALID, message: /confirmed/ })
  // Without the owner among the members not even the name of the owner is believed.
  const [alone] = await addTo(mallory, publicOf(own))
  await assert.rejects(bob.join(alone, own, expected), { ...INVALID, message: /owner/ })
})

test('a member that the owner added may add others, because the owner has committed', async () => {
  const { agents } = await channelOf('owner', 'ann')
  const [owner, ann] = agents as [Agent, Agent]
  const bob = new Agent('bob')
  const own = await bob.keyPackage()
  const { welcomes } = await ann.commit({ adds: [own.keyPackage] })
  await bob.join(welcomes[0]!.welcome, own, { name: NAME, owner: owner.agentId, signer: ann.agentId })
})

test('a Welcome must match what the caller expects', async () => {
  const owner = new Agent('owner')
  const channelId = await makeChannel(owner)
  const bob = new Agent('bob')
  const own = await bob.keyPackage()
  const { welcomes } = await owner.commit({ adds: [own.keyPackage] })
  const { welcome } = welcomes[0]!
  for (const [wrong, message] of [
    [{ channelId: new Uint8Array(16) }, /another channel/],
    [{ name: 'acme/support/other' }, /is for channel/],
    [{ owner: bob.agentId }, /is owned by/],
    [{ signer: bob.agentId }, /made by agent/],
    [{ founding: true }, /Not a Welcome/],
  ] as const)
    await assert.rejects(bob.join(welcome, own, wrong), { ...INVALID, message })
  const { signer } = await engine.join(welcome, own.privatePart, bob.key, { channelId, name: NAME })
  assert.equal(hex(signer.agentId), hex(owner.agentId))
})

test('a Welcome for another agent, a damaged one and none at all are refused', async () => {
  const { agents } = await channelOf('owner')
  const owner = agents[0]!
  const [bob, cid] = [new Agent('bob'), new Agent('cid')]
  const [forBob, spare, forCid] = [await bob.keyPackage(), await bob.keyPackage(), await cid.keyPackage()]
  const { welcomes } = await owner.commit({ adds: [forBob.keyPackage, forCid.keyPackage] })
  const [toBob, toCid] = welcomes.map(({ welcome }) => welcome) as [Uint8Array, Uint8Array]
  assert.deepEqual(engine.welcomeRefs(toBob).map(hex), [hex(forBob.ref)])
  assert.deepEqual(engine.welcomeRefs(text('x')), [])
  await assert.rejects(bob.join(toCid, forBob), INVALID)
  await assert.rejects(bob.join(toBob, spare), INVALID)
  await assert.rejects(bob.join(text('x'), forBob), INVALID)
  for (const at of [5, 60, 150, toBob.length - 20]) {
    const broken = Uint8Array.from(toBob)
    broken[at]! ^= 1
    await assert.rejects(bob.join(broken, forBob), INVALID, `byte ${at}`)
  }
  await assert.rejects(bob.join(toBob.subarray(0, 100), forBob), INVALID)
  await assert.rejects(bob.join(Buffer.concat([toBob, text('x')]), forBob), INVALID)
  await bob.join(toBob, forBob)
  await assert.rejects(engine.join(toBob, forBob.privatePart, cid.key, {}), { code: 'store_corrupt' })
})

test('a group that is not a channel, or still has its founder, is refused', async () => {
  const [owner, bob] = [new Agent('owner'), new Agent('bob')]
  const own = await bob.keyPackage()
  const planted = publicOf(await owner.keyPackage())
  const [plain] = await addTo(await group(text('x'), owner.agentId, []), publicOf(own))
  await assert.rejects(bob.join(plain, own), { ...INVALID, message: /not that of a channel/ })
  const [early] = await addTo(await group(FOUNDER_IDENTITY, owner.agentId), planted, publicOf(own))
  await assert.rejects(bob.join(early, own), { ...INVALID, message: /founder leaf is still/ })
  const [twins] = await addTo(await group(text('bob'), owner.agentId), planted, publicOf(own))
  await assert.rejects(bob.join(twins, own), { ...INVALID, message: /share an identity/ })
})
