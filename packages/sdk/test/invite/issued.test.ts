/**
 * The uses of an invite: how often one is returned to a joiner that stays silent, and that the relay learns of it. The
 * revocation of an invite: that the relay learns of it, too.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { type ErrorCode, StaticError, toHex } from '@static/protocol'
import { IssuedInvites } from '../../src/invite/issued.ts'
import { inviteKeys } from '../../src/invite/keys.ts'

const CHANNEL = toHex(randomBytes(16))
const MEMBERSHIP = { id: CHANNEL, owner: toHex(randomBytes(32)), group: undefined } as never

/** How many of 200 joiners, one after the other, get a use that the one before them gave back. */
async function admitted(maxUses: number, isSilent: boolean): Promise<number> {
  const secret = randomBytes(32)
  const keys = inviteKeys(secret)
  const context = {
    now: () => 0,
    journal: { add: () => undefined, written: async () => {} },
    pins: { conflict: () => undefined },
  }
  const agent = {
    context,
    stored: { invites: [], joiners: [] },
    memberships: { get: () => MEMBERSHIP },
    requests: { ask: async () => {} },
  }
  const issued = new IssuedInvites(agent as never)
  const record = { channel: CHANNEL, secret, expiresAt: 1000, maxUses, uses: 0, returned: 0, revoked: false }
  const invite = { record: { ...record, id: toHex(keys.inviteId), admit: 'owner' as const }, keys }
  await issued.issue(invite)
  for (let joiner = 0; joiner < 200; joiner++) {
    const agentId = randomBytes(32)
    try {
      const checked = { agentId, identity: randomBytes(8), signatureKey: agentId }
      issued.takeUse(MEMBERSHIP, invite, checked as never, { nonce: randomBytes(16), keyPackage: randomBytes(9) }, 0)
    } catch (error) {
      assert.equal(StaticError.from(error).code, 'invite_used_up')
      return joiner
    }
    await issued.giveBack(CHANNEL, toHex(agentId), isSilent)
    assert.deepEqual([...issued.joiners], [], 'nothing is kept of it')
  }
  return 200
}

test('a use of a joiner that stays silent is returned, but a token does not make its owner commit for ever', async () => {
  assert.equal(await admitted(1, true), 1 + 16 + 1)
  assert.equal(await admitted(5, true), 5 + 16 + 5)
})

test('a use that the relay or the group did not take is always returned', async () => {
  assert.equal(await admitted(1, false), 200)
})

test('uses that were returned before a crash are registered again, unless the invite has ended', async () => {
  const asked: unknown[] = []
  const secrets = [randomBytes(32), randomBytes(32), randomBytes(32)]
  const invites = secrets.map((secret, n) => {
    const id = toHex(inviteKeys(secret).inviteId)
    const counts = { maxUses: 5, uses: 2, returned: n }
    return { id, channel: CHANNEL, secret, expiresAt: 1000, ...counts, revoked: n === 2, admit: 'members' as const }
  })
  const agent = {
    context: { now: () => 0, journal: { written: async () => {} } },
    stored: { invites, joiners: [] },
    requests: { ask: async ({ value }: { value: unknown }) => void asked.push(value) },
  }
  await new IssuedInvites(agent as never).registerReturned()
  assert.equal(asked.length, 1)
  const [{ inviteId, maxUses }] = asked as [{ inviteId: Uint8Array; maxUses: number }]
  assert.deepEqual([toHex(inviteId), maxUses], [invites[1]?.id, 6])
})

test('a returned use that the relay defers is registered later; one that it refuses for good is not', async () => {
  const asked: number[] = []
  let refusal: ErrorCode | undefined = 'rate_limited'
  const secret = randomBytes(32)
  const id = toHex(inviteKeys(secret).inviteId)
  const counts = { maxUses: 1, uses: 1, returned: 0 }
  const record = { id, channel: CHANNEL, secret, expiresAt: 1000, ...counts, revoked: false, admit: 'owner' as const }
  const agent = {
    context: { now: () => 0, journal: { add: () => undefined, written: async () => {} } },
    stored: { invites: [record], joiners: [] },
    memberships: { get: () => MEMBERSHIP },
    requests: {
      ask: async ({ value }: { value: { maxUses: number } }) => {
        asked.push(value.maxUses)
        if (refusal) throw StaticError.of(refusal)
      },
    },
  }
  const issued = new IssuedInvites(agent as never)
  await issued.returnUse(id, false)
  assert.deepEqual(asked, [2])
  refusal = undefined
  await issued.registerReturned()
  await issued.registerReturned()
  assert.deepEqual(asked, [2, 2], 'once more, and not again once it is known')
  refusal = 'not_found'
  await issued.returnUse(id, false)
  await issued.registerReturned()
  assert.deepEqual(asked, [2, 2, 3])
  refusal = undefined
  // One is being registered while another one is returned: whoever returned it waits until the relay knows.
  await Promise.all([issued.returnUse(id, false), issued.returnUse(id, false)])
  assert.equal(asked.at(-1), 5)
})

/** An agent that starts with these invites; `answer` says what the relay answers to a revocation. */
function restarted(
  invites: readonly { readonly revoked: boolean; readonly expiresAt: number }[],
  answer: (id: string) => ErrorCode | undefined,
): { readonly issued: IssuedInvites; readonly ids: readonly string[]; readonly asked: string[] } {
  const asked: string[] = []
  const records = invites.map((changes) => {
    const secret = randomBytes(32)
    const id = toHex(inviteKeys(secret).inviteId)
    return { id, channel: CHANNEL, secret, maxUses: 5, uses: 0, returned: 0, admit: 'owner' as const, ...changes }
  })
  const outcome = async ({ value }: { value: { inviteId: Uint8Array } }): Promise<object> => {
    const id = toHex(value.inviteId)
    asked.push(id)
    const code = answer(id)
    return code === undefined ? { type: 'answered' } : { type: 'refused', error: { code } }
  }
  const context = { now: () => 500, journal: { add: () => undefined } }
  const agent = { context, stored: { invites: records, joiners: [] }, requests: { outcome } }
  return { issued: new IssuedInvites(agent as never), ids: records.map(({ id }) => id), asked }
}

test('revocations that the relay may not have taken before a crash are repeated, unless the invite has expired', async () => {
  const [revoked, unknown] = [1000, 1000].map((expiresAt) => ({ revoked: true, expiresAt }))
  const ended = { revoked: true, expiresAt: 400 }
  const open = { revoked: false, expiresAt: 1000 }
  const { issued, ids, asked } = restarted([revoked!, ended, open, unknown!], (id) =>
    id === ids[3] ? 'not_found' : undefined,
  )
  await issued.repeatRevocations()
  assert.deepEqual(asked, [ids[0], ids[3]])
  await issued.repeatRevocations()
  assert.equal(asked.length, 2, 'the relay knows of them now')
})

test('a revocation that the relay refuses is repeated in the next session, and so are those after it', async () => {
  let code: ErrorCode | undefined = 'rate_limited'
  const revoked = { revoked: true, expiresAt: 1000 }
  const { issued, ids, asked } = restarted([revoked, revoked], () => code)
  await issued.revokeAtRelay(issued.get(ids[0]!)!)
  await issued.repeatRevocations()
  assert.deepEqual(asked, [ids[0], ids[0]], 'it does not insist')
  code = undefined
  await issued.repeatRevocations()
  assert.deepEqual(asked.slice(2), ids)
})

test('in one session, at most 256 revocations are repeated, one after the other', async () => {
  const { issued, asked } = restarted(
    Array.from({ length: 300 }, () => ({ revoked: true, expiresAt: 1000 })),
    () => undefined,
  )
  // Another session opens meanwhile.
  await Promise.all([issued.repeatRevocations(), issued.repeatRevocations()])
  assert.equal(asked.length, 256)
  await issued.repeatRevocations()
  assert.equal(new Set(asked).size, 300)
})
