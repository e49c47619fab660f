/** The uses of an invite: how often one is returned to a joiner that stays silent, and that the relay learns of it. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { StaticError, toHex } from '@static/protocol'
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
    context: { now: () => 0 },
    stored: { invites, joiners: [] },
    requests: { ask: async ({ value }: { value: unknown }) => void asked.push(value) },
  }
  await new IssuedInvites(agent as never).registerReturned()
  assert.equal(asked.length, 1)
  const [{ inviteId, maxUses }] = asked as [{ inviteId: Uint8Array; maxUses: number }]
  assert.deepEqual([toHex(inviteId), maxUses], [invites[1]?.id, 6])
})
