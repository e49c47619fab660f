/**
 * The uses of an invite: how often one is returned to a joiner that stays silent, and that the relay learns of it. The
 * revocation of an invite: that the relay learns of it, too.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { type ErrorCode, MAX_MEMBERS, StaticError, toHex } from '@static/protocol'
import { IssuedInvites } from '../../src/admitting/issued.ts'
import { inviteKeys } from '../../src/admitting/keys.ts'

const CHANNEL = toHex(randomBytes(16))
const MEMBERSHIP = {
  id: CHANNEL,
  owner: toHex(randomBytes(32)),
  group: undefined,
  roster: { conflict: () => undefined },
} as never

/** How many of 200 joiners, one after the other, get a use that the one before them gave back. */
/** The place of a joiner that replaces nobody. */
const PLACE = { others: 0, replaced: [], verdict: undefined }

async function admitted(maxUses: number, isSilent: boolean): Promise<number> {
  const secret = randomBytes(32)
  const keys = inviteKeys(secret)
  const context = {
    now: () => 0,
    journal: { add: () => undefined, written: async () => {} },
  }
  const agent = {
    context,
    stored: { invites: [], joiners: [] },
    channels: { get: () => MEMBERSHIP },
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
      issued.takeUse(
        MEMBERSHIP,
        invite,
        checked as never,
        { nonce: randomBytes(16), keyPackage: randomBytes(9) },
        PLACE,
      )
    } catch (error) {
      assert.equal(StaticError.from(error).code, 'invite_used_up')
      return joiner
    }
    await issued.returnUseOf(CHANNEL, toHex(agentId), isSilent)
    assert.deepEqual([...issued.joiners], [], 'nothing is kept of it')
  }
  return 200
}

test('a use of a joiner that stays silent is returned, but a token does not make its owner commit forever', async () => {
  assert.equal(await admitted(1, true), 1 + 16 + 1)
  assert.equal(await admitted(5, true), 5 + 16 + 5)
})

test('a joiner that takes the place of a member needs none in a full channel', async () => {
  const members = new Map(Array.from({ length: MAX_MEMBERS }, (_, at) => [`member ${at}`, {}]))
  const full = { id: CHANNEL, group: { members }, roster: { conflict: () => undefined } }
  const context = { now: () => 0, journal: { add: () => undefined, written: async () => {} } }
  const requests = { ask: async () => {} }
  const agent = { context, stored: { invites: [], joiners: [] }, channels: { get: () => full }, requests }
  const issued = new IssuedInvites(agent as never)
  const secret = randomBytes(32)
  const keys = inviteKeys(secret)
  const uses = { maxUses: 9, uses: 0, returned: 0, revoked: false }
  const record = { channel: CHANNEL, secret, expiresAt: 1000, ...uses, id: toHex(keys.inviteId) }
  const invite = { record: { ...record, admit: 'owner' as const }, keys }
  await issued.issue(invite)
  const take = (place: Parameters<IssuedInvites['takeUse']>[4]): void => {
    const checked = { agentId: randomBytes(32), identity: randomBytes(8) }
    const request = { nonce: randomBytes(16), keyPackage: randomBytes(9) }
    issued.takeUse(full as never, invite, checked as never, request, place)
  }
  take({ ...PLACE, replaced: ['member 7'] })
  for (const place of [PLACE, { ...PLACE, others: 1, replaced: ['member 8'] }])
    assert.throws(
      () => take(place),
      (error) => StaticError.from(error).code === 'group_full',
    )
})

test('a use that the relay or the group did not take is always returned', async () => {
  assert.equal(await admitted(1, false), 200)
})

/** Invites with so many returned uses each, and the relay that is told of them. */
function returning(
  returned: readonly number[],
  answer: (id: string) => Promise<ErrorCode | undefined> | ErrorCode | undefined,
  changes: { readonly revoked?: boolean } = {},
): { readonly issued: IssuedInvites; readonly ids: readonly string[]; readonly told: (readonly [string, number])[] } {
  const told: (readonly [string, number])[] = []
  const invites = returned.map((count) => {
    const secret = randomBytes(32)
    const id = toHex(inviteKeys(secret).inviteId)
    const counts = { maxUses: 5, uses: 2, returned: count }
    const record = { id, channel: toHex(randomBytes(16)), secret, expiresAt: 1000, ...counts }
    return { ...record, revoked: false, admit: 'members' as const, ...changes }
  })
  const outcome = async ({ value }: { value: { inviteId: Uint8Array; maxUses: number } }): Promise<object> => {
    const id = toHex(value.inviteId)
    told.push([id, value.maxUses])
    const code = await answer(id)
    return code === undefined ? { type: 'answered' } : { type: 'refused', error: { code, message: '', lagging: [] } }
  }
  const ask = async ({ value }: { value: { inviteId: Uint8Array; maxUses: number } }): Promise<void> => {
    told.push([toHex(value.inviteId), value.maxUses])
    const code = await answer(toHex(value.inviteId))
    if (code) throw StaticError.of(code)
  }
  const agent = {
    context: { now: () => 0, journal: { add: () => undefined, written: async () => {} } },
    stored: { invites, joiners: [] },
    channels: { get: () => MEMBERSHIP },
    requests: { ask, outcome },
  }
  return { issued: new IssuedInvites(agent as never), ids: invites.map(({ id }) => id), told }
}

test('uses that were returned before a crash are registered again, unless the invite has ended', async () => {
  const { issued, ids, told } = returning([0, 1], () => undefined)
  await issued.registerReturned()
  assert.deepEqual(told, [[ids[1], 6]])
  const ended = returning([1], () => undefined, { revoked: true })
  await ended.issued.registerReturned()
  assert.deepEqual(ended.told, [])
})

test('a returned use that the relay defers is registered later; one that it refuses for good is not', async () => {
  let code: ErrorCode | undefined = 'rate_limited'
  const { issued, ids, told } = returning([0], () => code)
  const [id = ''] = ids
  await issued.returnUse(id, false)
  await issued.registerReturned()
  code = undefined
  await issued.registerReturned()
  await issued.registerReturned()
  const times = told.map(([, maxUses]) => maxUses)
  assert.deepEqual(times, [6, 6, 6], 'and not again once it is known')
  code = 'not_found'
  await issued.returnUse(id, false)
  await issued.registerReturned()
  assert.equal(told.length, 4)
})

test('returned uses that the relay defers forever keep no others back', async () => {
  const { issued, ids, told } = returning(
    Array.from({ length: 40 }, () => 1),
    (id) => (ids.indexOf(id) < 35 ? 'rate_limited' : undefined),
  )
  await issued.registerReturned()
  assert.equal(told.length, 16, 'it does not insist')
  for (let tick = 0; tick < 2; tick++) await issued.registerReturned()
  const known = new Set(told.map(([id]) => id))
  assert.deepEqual(
    ids.filter((id) => !known.has(id)),
    [],
  )
})

test('a returned use waits only for its own registration', async () => {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const { issued, ids, told } = returning([1, 0], (id) => (id === ids[0] ? promise : undefined))
  const earlier = issued.registerReturned()
  await issued.returnUse(ids[1] ?? '', false)
  resolve(undefined)
  await earlier
  assert.deepEqual(told.at(-1), [ids[1], 6])
})

test('a returned use that the relay defers while an earlier one is being registered is registered as well', async () => {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  let asked = 0
  const { issued, ids, told } = returning([1], () => [promise, 'rate_limited' as const][asked++])
  const earlier = issued.registerReturned()
  await issued.returnUse(ids[0] ?? '', false)
  resolve(undefined)
  await earlier
  await issued.registerReturned()
  assert.deepEqual(told.at(-1), [ids[0], 7])
  assert.equal(told.length, 3)
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
