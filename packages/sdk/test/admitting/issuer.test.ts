/** What the owner of invites tells the group while it removes a member, and what it does while it is offline. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { fromHex, StaticError, toHex } from '@static/protocol'
import type { ListedInvite } from '../../src/admitting/invite-list.ts'
import { InviteIssuer } from '../../src/admitting/issuer.ts'

const CHANNEL = toHex(randomBytes(16))
const OWNER = toHex(randomBytes(32))
const LIMITS = { maxUses: 1, lifetimeMs: 1000, admit: 'members' } as const

interface Scene {
  readonly issuer: InviteIssuer
  readonly channel: never
  /** How many invites each list had that the group was told. */
  readonly lists: number[]
  /** Called with the kind of each request before it is answered. */
  asking: (kind: string) => Promise<void>
  /** The code with which the relay refuses to revoke an invite. */
  refusal: string | undefined
}

/** An owner whose group and relay take all. */
function scene(): Scene {
  const lists: number[] = []
  let invites: readonly ListedInvite[] = []
  const listedInvites = {
    unanswered: [],
    get invites() {
      return invites
    },
    publish: (open: readonly ListedInvite[]) => {
      invites = open
      lists.push(open.length)
      return Promise.resolve()
    },
  }
  const group = { members: new Map([['bob', {}]]) }
  const place = { id: CHANNEL, channelId: fromHex(CHANNEL), name: 'acme/x/y', owner: OWNER, state: 'joined' }
  const proving = { showing: { require: undefined }, demands: [] }
  const channel = { ...place, group, listedInvites, proving }
  const requests = {
    ask: ({ case: kind }: { case: string }) => at.asking(kind),
    outcome: async ({ case: kind }: { case: string }) => {
      await at.asking(kind)
      // Polls wait for longer than the test.
      if (kind === 'pollJoinRequests') return await new Promise(() => {})
      const { refusal: code } = at
      return code === undefined ? { type: 'answered' } : { type: 'refused', error: { code } }
    },
  }
  const journal = { add: () => undefined, written: () => Promise.resolve() }
  const context = { agentId: OWNER, now: () => 0, random: (length: number) => randomBytes(length), journal }
  const timers = { every: () => () => undefined, later: () => () => undefined }
  const channels = { get: () => channel, [Symbol.iterator]: () => [channel].values() }
  const agent = { hasAccountSession: true, context, requests, timers, channels, stored: { invites: [], joiners: [] } }
  const issuer = new InviteIssuer(agent as never, 'relay.test', assert.fail)
  const at: Scene = {
    issuer,
    channel: channel as never,
    lists,
    asking: () => Promise.resolve(),
    refusal: undefined,
  }
  return at
}

test('an invite that is created while a member is removed waits until it is', async () => {
  const { issuer, channel, lists } = scene()
  await issuer.invite(channel, LIMITS)
  const [first, second] = [await issuer.removing(CHANNEL, 'bob'), await issuer.removing(CHANNEL, 'carol')]
  assert.deepEqual(lists, [1, 0])
  const inviting = issuer.invite(channel, LIMITS)
  for (const done of [first, second]) {
    await new Promise(setImmediate)
    assert.deepEqual(lists, [1, 0])
    done()
  }
  await inviting
  assert.deepEqual(lists, [1, 0, 1])
})

test('an invite that a removal ends before it is known is refused, instead of a token that no one can use', async () => {
  const at = scene()
  const { issuer, channel } = at
  at.asking = async (kind) => {
    if (kind === 'registerInvite') (await issuer.removing(CHANNEL, 'bob'))()
  }
  await assert.rejects(issuer.invite(channel, LIMITS), (error) => StaticError.from(error).code === 'invite_revoked')
  assert.deepEqual(at.lists, [])
})

test('a revocation that the relay refuses is repeated with the next session, and not after that', async () => {
  const at = scene()
  const { issuer, channel } = at
  const token = await issuer.invite(channel, LIMITS)
  let asked = 0
  at.asking = async (kind) => void (asked += Number(kind === 'revokeInvite'))
  at.refusal = 'unavailable'
  await issuer.revoke(token)
  assert.equal(asked, 1)
  at.refusal = undefined
  for (let session = 0; session < 2; session++) {
    issuer.opened()
    await new Promise(setImmediate)
    assert.equal(asked, 2)
  }
})

/** An owner that is offline: what it commits waits. Its tick is due whenever it is called. */
function offline(
  uses: readonly object[],
  joiners: readonly object[],
): { tick: () => Promise<void>; commits: (() => void)[] } {
  const commits: (() => void)[] = []
  let now = 0
  let tick = (): void => assert.fail()
  const committer = { commit: () => new Promise<void>((resolve) => commits.push(resolve)) }
  const listedInvites = { invites: [], uses, unanswered: [] }
  const group = { members: new Map([['bob', {}]]) }
  const history = { hasHeard: () => false }
  const proving = { demands: [] }
  const channel = { id: CHANNEL, owner: OWNER, state: 'joined', group, listedInvites, committer, history, proving }
  const channels = { get: () => channel, [Symbol.iterator]: () => [channel].values() }
  const timers = { every: (_: number, action: () => void) => ((tick = action), () => undefined) }
  const context = { agentId: OWNER, now: () => now }
  const agent = { hasAccountSession: true, context, timers, channels, stored: { invites: [], joiners } }
  new InviteIssuer(agent as never, 'relay.test', assert.fail).opened()
  now = 70_000
  const due = async (): Promise<void> => {
    tick()
    await new Promise(setImmediate)
  }
  return { tick: due, commits }
}

const ADDED = { channel: CHANNEL, agent: 'bob', invite: 'none', state: 'added', since: 0 }

for (const [who, uses, joiners] of [
  ['stayed silent', [], [ADDED]],
  ['was added beyond the count', [{ ...ADDED, slot: 1, beyond: true }], []],
] as const) {
  test(`an owner that is offline queues one commit to remove who ${who}, and another when that is done`, async () => {
    const { tick, commits } = offline(uses, joiners)
    for (let times = 0; times < 3; times++) await tick()
    assert.equal(commits.length, 1)
    commits[0]?.()
    await new Promise(setImmediate)
    await tick()
    assert.equal(commits.length, 2)
  })
}
