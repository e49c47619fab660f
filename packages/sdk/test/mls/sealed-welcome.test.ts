/** The seal of a Welcome: what it depends on, what opens it, and what a member or a recorder cannot do with it. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import type { InviteSeal } from '../../src/mls/sealed-welcome.ts'
import { openSealedWelcome, parseSealedWelcome } from '../../src/mls/sealed-welcome.ts'
import type { NewKeyPackage, PendingCommit } from '../../src/mls/engine.ts'
import { encodeSealKey } from '../../src/mls/seal-key.ts'
import { decodeOwn } from '../../src/mls/ts-mls/key-package.ts'
import { decodeMessage } from '../../src/mls/ts-mls/message.ts'
import { Agent, engine, hex, makeChannel } from './support.ts'

const INVALID = { code: 'invalid_welcome' }
const HEAD_BYTES = 4 + 2 + 32 + 1088 + 2

const inviteOf = (first: number): InviteSeal => ({
  inviteId: new Uint8Array(16).fill(first),
  seal: new Uint8Array(32).fill(first + 1),
})

interface Added {
  readonly bob: Agent
  readonly own: NewKeyPackage
  readonly pending: PendingCommit
  readonly welcome: Uint8Array
}

/** Bob is added, by an invite or without one. */
async function added(invite?: InviteSeal): Promise<Added> {
  const [owner, bob] = [new Agent('owner'), new Agent('bob')]
  await makeChannel(owner)
  const own = await bob.keyPackage()
  const invited = invite ? [{ ...invite, agentId: bob.agentId }] : []
  const pending = await owner.commit({ adds: [own.keyPackage], invited })
  return { bob, own, pending, welcome: pending.welcomes[0]!.welcome }
}

for (const [how, invite] of [
  ['without an invite', undefined],
  ['by an invite', inviteOf(1)],
] as const) {
  test(`a Welcome ${how} is sealed, and names its KeyPackage and its invite`, async () => {
    const { bob, own, pending, welcome } = await added(invite)
    assert.equal(hex(welcome.subarray(0, 6)), `0001f57c01${invite ? '01' : '00'}`)
    assert.deepEqual(engine.welcomeRefs(welcome).map(hex), [hex(own.ref)])
    assert.deepEqual(engine.welcomeInvite(welcome), invite?.inviteId)
    assert.equal(hex(welcome.subarray(-pending.groupInfo.length)), hex(pending.groupInfo))
    const sealed = parseSealedWelcome(welcome)!
    assert.equal(sealed.head.length, HEAD_BYTES + (invite ? 16 : 0))
    assert.equal(sealed.head.length + sealed.sealed.length + pending.groupInfo.length, welcome.length)
    // Nothing in it is a Welcome as MLS has it.
    for (let at = 0; at < welcome.length; at++)
      assert.equal(decodeMessage('mls_welcome', welcome.subarray(at)), undefined, `at ${at}`)
    await bob.join(welcome, own, invite ? { invite } : {})
    // Its seed is wiped by the agent with the private part; used again, the Welcome still opens for who has that.
    await assert.rejects(bob.join(welcome, { ...own, privatePart: own.privatePart.fill(0) }, {}), {
      code: 'store_corrupt',
    })
  })

  test(`any changed byte of a Welcome ${how} has the one code, and so has one that is cut off or goes on`, async () => {
    const { bob, own, welcome } = await added(invite)
    const expected = invite ? { invite } : {}
    const head = HEAD_BYTES + (invite ? 16 : 0)
    // Each field of H, the own part and its tag, the length and the content of group_info.
    const fields = [
      0,
      3,
      4,
      5,
      6,
      37,
      ...(invite ? [38, 53] : []),
      head - 1090,
      head - 600,
      head - 3,
      head - 2,
      head - 1,
    ]
    const more = [head, head + 60, head + 200, welcome.length - 1]
    for (const at of [...fields, ...more]) {
      for (const bit of [1, 0x80]) {
        const changed = welcome.with(at, welcome[at]! ^ bit)
        await assert.rejects(engine.join(changed, own.privatePart, bob.key, expected), INVALID, `byte ${at}`)
      }
    }
    for (const length of [0, 3, 5, 6, 38, head - 1089, head - 1, head, head + 15, head + 40, welcome.length - 1]) {
      const cut = welcome.subarray(0, length)
      await assert.rejects(engine.join(cut, own.privatePart, bob.key, expected), INVALID, `${length} bytes`)
    }
    const longer = Buffer.concat([welcome, Buffer.of(0)])
    await assert.rejects(engine.join(longer, own.privatePart, bob.key, expected), INVALID)
    await bob.join(welcome, own, expected)
  })
}

test('a Welcome opens only with the key of the KeyPackage and the key of the invite', async () => {
  const invite = inviteOf(1)
  const { bob, own, welcome } = await added(invite)
  const sealed = parseSealedWelcome(welcome)!
  const { sealPair } = decodeOwn(own.privatePart, bob.key)
  assert.ok(decodeMessage('mls_welcome', openSealedWelcome(sealed, sealPair, invite.seal)))
  // The relay or a recorder that has broken the KEM still lacks the token.
  for (const seal of [undefined, new Uint8Array(32), inviteOf(2).seal, invite.inviteId])
    assert.throws(() => openSealedWelcome(sealed, sealPair, seal))
  // Someone who was shown the token, or a member that admits, still lacks the seed.
  for (const seed of [sealPair.seed.with(0, sealPair.seed[0]! ^ 1), sealPair.seed.with(31, sealPair.seed[31]! ^ 1)])
    assert.throws(() => openSealedWelcome(sealed, { ...sealPair, seed }, invite.seal))
  // Both, but for another encapsulation key or another GroupInfo.
  const sealKey = sealPair.sealKey.with(1, sealPair.sealKey[1]! ^ 1)
  assert.throws(() => openSealedWelcome(sealed, { ...sealPair, sealKey }, invite.seal))
  const groupInfo = sealed.groupInfo.with(9, sealed.groupInfo[9]! ^ 1)
  assert.throws(() => openSealedWelcome({ ...sealed, groupInfo }, sealPair, invite.seal))
})

test('a joiner takes only a Welcome by its own invite, and no one else takes one by an invite', async () => {
  const invite = inviteOf(1)
  const byInvite = await added(invite)
  const join = ({ bob, own, welcome }: Added, expected: { invite?: InviteSeal }): Promise<unknown> =>
    engine.join(welcome, own.privatePart, bob.key, expected)
  await assert.rejects(join(byInvite, {}), { ...INVALID, message: /by invite 0101/ })
  await assert.rejects(join(byInvite, { invite: inviteOf(3) }), {
    ...INVALID,
    message: /not for a join by this invite/,
  })
  await assert.rejects(join(byInvite, { invite: { ...invite, seal: inviteOf(3).seal } }), INVALID)
  await join(byInvite, { invite })
  const byHand = await added()
  await assert.rejects(join(byHand, { invite }), { ...INVALID, message: /not for a join by this invite/ })
  await join(byHand, {})
})

test('two Welcomes for one KeyPackage differ in everything that is secret, and each opens', async () => {
  const [owner, bob, cid] = [new Agent('owner'), new Agent('bob'), new Agent('cid')]
  await makeChannel(owner)
  const [own, more] = [await bob.keyPackage(), await cid.keyPackage()]
  // The first commit is refused, so it is made again.
  const first = await owner.commit({ adds: [own.keyPackage] })
  const second = await owner.commit({ adds: [own.keyPackage, more.keyPackage] })
  const [one, other] = [first, second].map(({ welcomes }) => parseSealedWelcome(welcomes[0]!.welcome)!)
  assert.equal(hex(one!.ref), hex(other!.ref))
  assert.notEqual(hex(one!.ciphertext), hex(other!.ciphertext))
  assert.notEqual(hex(one!.sealed.subarray(0, 16)), hex(other!.sealed.subarray(0, 16)))
  // Parts of the one do not fit the other.
  const mixed = Buffer.concat([other!.head, one!.sealed, one!.groupInfo])
  const swapped = Buffer.concat([one!.head, one!.sealed, other!.groupInfo])
  for (const welcome of [mixed, swapped]) await assert.rejects(bob.join(welcome, own), INVALID)
  for (const { welcomes } of [first, second]) await bob.join(welcomes[0]!.welcome, own)
})

test('a Welcome that is not sealed is refused, even if it is a true one', async () => {
  const { bob, own, welcome } = await added()
  const { sealPair } = decodeOwn(own.privatePart, bob.key)
  const plain = openSealedWelcome(parseSealedWelcome(welcome)!, sealPair, undefined)
  await assert.rejects(bob.join(plain, own), { ...INVALID, message: /not sealed.*runs an older version/ })
  await assert.rejects(bob.join(welcome.with(4, 2), own), { ...INVALID, message: /newer version/ })
  // The seal contains a Welcome for this KeyPackage alone.
  assert.equal(decodeMessage('mls_welcome', plain)?.welcome.secrets.length, 1)
})

test('all that one commit adds share the GroupInfo, and each is sealed for its own way in', async () => {
  const owner = new Agent('owner')
  await makeChannel(owner)
  const agents = ['ann', 'bob', 'cid'].map((name) => new Agent(name))
  const owns = await Promise.all(agents.map((agent) => agent.keyPackage()))
  const invites = [undefined, inviteOf(1), inviteOf(3)]
  // In another order than the adds.
  const invited = [2, 1].map((at) => ({ ...invites[at]!, agentId: agents[at]!.agentId }))
  const { welcomes, groupInfo } = await owner.commit({ adds: owns.map(({ keyPackage }) => keyPackage), invited })
  for (const [at, agent] of agents.entries()) {
    const { welcome } = welcomes[at]!
    assert.equal(hex(parseSealedWelcome(welcome)!.groupInfo), hex(groupInfo))
    const invite = invites[at]
    for (const [other, { privatePart }] of owns.entries())
      if (other !== at) await assert.rejects(engine.join(welcome, privatePart, agents[other]!.key, {}), INVALID)
    await agent.join(welcome, owns[at]!, invite ? { invite } : {})
  }
})

test('an encapsulation key has a version before it on the wire', () => {
  const key = new Uint8Array(randomBytes(1184))
  assert.equal(hex(encodeSealKey(key)), `01${hex(key)}`)
})
