/** How an owner admits those who ask together: the real checks and records, before a group and a relay that are told what to do. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { type ErrorCode, fromHex, StaticError, toHex } from '@static/protocol'
import { generateSignatureKeyPair } from '@static/node/ed25519'
import { admitAsOwner } from '../../src/admitting/admit.ts'
import { type Invite, IssuedInvites } from '../../src/admitting/issued.ts'
import { sealRequest } from '../../src/joining/request.ts'
import { inviteKeys } from '../../src/admitting/keys.ts'
import { agentIdOf, makeEngine } from '../../src/mls/index.ts'

const NOW = Date.now()
const engine = makeEngine()
const CHANNEL = toHex(randomBytes(16))
const OWNER = toHex(randomBytes(32))
const PLACE = { channelId: fromHex(CHANNEL), name: 'acme/x/y', owner: fromHex(OWNER) }

type Asked = Parameters<typeof admitAsOwner>[3][number]

/** An owner with one invite; what the group does not take is in `bad`. */
class Owner {
  readonly issued: IssuedInvites
  readonly invite: Invite
  /** Whom each commit has added. */
  readonly commits: string[][] = []
  /** For whom each has vouched, and for whom this owner has vouched before. */
  readonly vouches: string[][] = []
  readonly vouched = new Set<string>()
  /** The answers to joiners, by agent id. */
  readonly answers = new Map<string, string>()
  readonly bad = new Set<string>()
  /** Whether the relay has had too many answers. */
  isLimited = false
  /** How what is bad is refused, and how long each commit may be deferred. */
  refusal: ErrorCode = 'invalid_request'
  readonly waits: (number | undefined)[] = []
  readonly #members = new Map<string, object>()
  readonly #agent: Parameters<typeof admitAsOwner>[0]
  readonly #channel: Parameters<typeof admitAsOwner>[2]

  constructor(maxUses: number) {
    const secret = randomBytes(32)
    const keys = inviteKeys(secret)
    const record = {
      id: toHex(keys.inviteId),
      channel: CHANNEL,
      secret,
      expiresAt: NOW + 1e6,
      maxUses,
      uses: 0,
      returned: 0,
      revoked: false,
      admit: 'owner' as const,
    }
    this.invite = { record, keys }
    const group = { members: this.#members }
    const channel = {
      id: CHANNEL,
      ...PLACE,
      owner: OWNER,
      group,
      roster: { notice: () => undefined, conflict: () => undefined },
    }
    const context = {
      engine,
      now: () => NOW,
      journal: { add: () => undefined, written: () => Promise.resolve() },
    }
    const requests = {
      ask: () => Promise.resolve(),
      outcome: ({ value }: { value: { agentId: Uint8Array; code: string } }) => {
        if (this.isLimited) return Promise.resolve({ type: 'refused', error: { code: 'rate_limited' } })
        this.answers.set(toHex(value.agentId), value.code)
        return Promise.resolve({ type: 'answered' })
      },
    }
    const stored = { invites: [record], joiners: [] }
    const agent = { context, requests, stored, channels: new Map([[CHANNEL, channel]]) }
    this.issued = new IssuedInvites(agent as never)
    this.#agent = agent as never
    const committer = { commit: (...call: Parameters<Owner['commit']>) => this.commit(...call) }
    this.#channel = {
      ...channel,
      committer,
      upkeep: { isRekeyDue: false },
      history: { hasHeard: () => false },
      receipts: { isVouched: (agent: string) => this.vouched.has(agent) },
      listedInvites: {
        hasLeft: () => false,
        inTurn: (task: () => Promise<void>) => task(),
        claims: { mayCount: () => false },
      },
    } as never
  }

  async commit(
    change: (group: object) => { adds: Uint8Array[]; vouches: Uint8Array[] } | undefined,
    options: { joiners(): readonly string[]; maxWaitMs?: number },
  ): Promise<void> {
    this.waits.push(options.maxWaitMs)
    const { adds = [], vouches = [] } = change({ members: this.#members }) ?? {}
    const added = await Promise.all(adds.map((keyPackage) => engine.checkKeyPackage(keyPackage, NOW)))
    if (adds.some((keyPackage) => this.bad.has(toHex(keyPackage)))) throw StaticError.of(this.refusal)
    const joiners = options.joiners().map((joiner) => joiner.split(' ')[0]!)
    this.commits.push(joiners)
    this.vouches.push(vouches.map(toHex))
    for (const agent of joiners) {
      this.#members.set(agent, added.find(({ agentId }) => toHex(agentId) === agent) ?? {})
      this.issued.putJoiner({ ...this.issued.joiner(CHANNEL, agent)!, state: 'added' })
    }
  }

  leave(agent: string): void {
    this.#members.delete(agent)
  }

  decide(requests: readonly Asked[]): Promise<void> {
    return admitAsOwner(this.#agent, this.issued, this.#channel, requests)
  }

  /** Somebody who asks. */
  async joiner(
    identity: string,
    key = generateSignatureKeyPair(),
  ): Promise<{ agent: string; asked: Asked; keyPackage: Uint8Array }> {
    const { keyPackage } = await engine.generateKeyPackage(Buffer.from(identity), key, NOW)
    const agentId = agentIdOf(key.publicKey)
    const box = sealRequest(this.invite.keys, PLACE, { nonce: randomBytes(16), keyPackage })
    const asked = { inviteId: this.invite.keys.inviteId, agentId, box } as Asked
    return { agent: toHex(agentId), asked, keyPackage }
  }

  async joiners(count: number): Promise<Awaited<ReturnType<Owner['joiner']>>[]> {
    return Promise.all(Array.from({ length: count }, (_, at) => this.joiner(`guest ${at}`)))
  }
}

test('joiners that ask together are added by one commit', async () => {
  const owner = new Owner(30)
  const joiners = await owner.joiners(30)
  await owner.decide(joiners.map(({ asked }) => asked))
  assert.deepEqual(
    owner.commits.map((agents) => agents.length),
    [30],
  )
  assert.equal(owner.issued.get(owner.invite.record.id)?.record.uses, 30)
  // Once more: they are in.
  await owner.decide(joiners.map(({ asked }) => asked))
  assert.equal(owner.answers.size, 0)
})

test('the owner vouches for an agent that joins with an invite of one use, and for none that joins with another', async () => {
  for (const [uses, expected] of [
    [1, 1],
    [2, 0],
  ] as const) {
    const owner = new Owner(uses)
    const joiners = await owner.joiners(uses)
    await owner.decide(joiners.map(({ asked }) => asked))
    assert.deepEqual(
      owner.vouches,
      joiners.slice(0, 1).map(({ agent }) => (expected === 1 ? [agent] : [])),
    )
  }
})

test('a member that lost its state and joins again stays vouched for, if it was', async () => {
  const owner = new Owner(9)
  const [vouched, other] = [generateSignatureKeyPair(), generateSignatureKeyPair()]
  const agents = await Promise.all([owner.joiner('vouched', vouched), owner.joiner('other', other)])
  await owner.decide(agents.map(({ asked }) => asked))
  owner.vouched.add(agents[0].agent)
  const again = await Promise.all([owner.joiner('vouched', vouched), owner.joiner('other', other)])
  await owner.decide(again.map(({ asked }) => asked))
  assert.deepEqual(owner.vouches, [[], [agents[0].agent]])
})

test('a member that joins again under another name is not vouched for', async () => {
  const owner = new Owner(9)
  const key = generateSignatureKeyPair()
  const first = await owner.joiner('bob', key)
  await owner.decide([first.asked])
  owner.vouched.add(first.agent)
  await owner.decide([(await owner.joiner('carol', key)).asked])
  assert.deepEqual(owner.vouches, [[], []])
})

test("joiners whose answers exceeded the relay's limit are answered when they are decided again", async () => {
  const owner = new Owner(1)
  const joiners = await owner.joiners(3)
  const requests = joiners.map(({ asked }) => asked)
  const forged = { ...requests[2]!, box: requests[2]!.box.with(60, requests[2]!.box[60]! ^ 1) }
  const asked = [requests[0]!, requests[1]!, forged]
  owner.isLimited = true
  await owner.decide(asked)
  assert.equal(owner.answers.size, 0)
  owner.isLimited = false
  await owner.decide(asked)
  assert.deepEqual(
    [...owner.answers].sort(),
    [
      [joiners[1]!.agent, 'invite_used_up'],
      [joiners[2]!.agent, 'invite_invalid'],
    ].sort(),
  )
  assert.deepEqual(owner.commits, [[joiners[0]!.agent]])
})

test('the request of an agent that was a member and has left is refused, no matter who still has it', async () => {
  const owner = new Owner(2)
  const [joiner] = await owner.joiners(1)
  await owner.decide([joiner!.asked])
  owner.issued.putJoiner({ ...owner.issued.joiner(CHANNEL, joiner!.agent)!, state: 'here' })
  owner.leave(joiner!.agent)
  await owner.decide([joiner!.asked])
  assert.deepEqual([...owner.answers.values()], ['invite_invalid'])
  assert.equal(owner.commits.length, 1)
  assert.equal(owner.issued.get(owner.invite.record.id)?.record.uses, 1)
})

test('a use that was taken before a crash is not taken again for the same request', async () => {
  const owner = new Owner(1)
  const [joiner] = await owner.joiners(1)
  const commit = owner.commit.bind(owner)
  // Killed before the commit: what is on disk is the use.
  owner.commit = () => Promise.reject(StaticError.of('closed'))
  await assert.rejects(owner.decide([joiner!.asked]), { code: 'closed' })
  assert.equal(owner.issued.get(owner.invite.record.id)?.record.uses, 1)
  owner.commit = commit
  await owner.decide([joiner!.asked])
  assert.deepEqual(owner.commits, [[joiner!.agent]])
  assert.equal(owner.issued.get(owner.invite.record.id)?.record.uses, 1)
  assert.equal(owner.answers.size, 0)
})

test('a joiner that the group refuses keeps no one else out, and its use is returned', async () => {
  const owner = new Owner(16)
  const joiners = await owner.joiners(16)
  for (const at of [3, 12]) owner.bad.add(toHex(joiners[at]!.keyPackage))
  await owner.decide(joiners.map(({ asked }) => asked))
  assert.deepEqual(
    [...owner.answers].toSorted(),
    [3, 12].map((at) => [joiners[at]!.agent, 'invite_invalid']).toSorted(),
  )
  assert.equal(owner.commits.flat().length, 14)
  assert.ok(owner.commits.length <= 8)
  assert.equal(owner.issued.get(owner.invite.record.id)?.record.uses, 14)
})

test('every refused joiner gets its own reason: used up, duplicate identity, nonsense', async () => {
  const owner = new Owner(3)
  const [one, two] = await owner.joiners(2)
  const twin = await owner.joiner('guest 0')
  const nonsense = { ...(await owner.joiner('nonsense')).asked, box: randomBytes(100) } as Asked
  const [third, late] = [await owner.joiner('third'), await owner.joiner('late')]
  await owner.decide([one!.asked, twin.asked, nonsense, two!.asked, third.asked, late.asked])
  assert.deepEqual(owner.commits, [[one!.agent, two!.agent, third.agent]])
  assert.deepEqual(
    new Map(owner.answers),
    new Map([
      [twin.agent, 'identity_changed'],
      [toHex(nonsense.agentId), 'invite_invalid'],
      [late.agent, 'invite_used_up'],
    ]),
  )
})

test('temporary failures are not answered, and every use is returned', async () => {
  const owner = new Owner(4)
  owner.commit = () => Promise.reject(StaticError.of('rate_limited'))
  const joiners = await owner.joiners(4)
  await owner.decide(joiners.map(({ asked }) => asked))
  assert.equal(owner.answers.size, 0)
  assert.equal(owner.issued.get(owner.invite.record.id)?.record.uses, 0)
})

test('a joiner for whom the relay defers every commit keeps no one else out, and the halves wait for less', async () => {
  const owner = new Owner(16)
  owner.refusal = 'rate_limited'
  const joiners = await owner.joiners(16)
  owner.bad.add(toHex(joiners[3]!.keyPackage))
  await owner.decide(joiners.map(({ asked }) => asked))
  assert.equal(owner.answers.size, 0)
  assert.deepEqual(
    new Set(owner.commits.flat()),
    new Set(joiners.filter((_, at) => at !== 3).map(({ agent }) => agent)),
  )
  assert.deepEqual([owner.waits[0], new Set(owner.waits.slice(1))], [undefined, new Set([5000])])
})

test('a relay that defers everything is not asked for each joiner', async () => {
  const owner = new Owner(64)
  let asked = 0
  owner.commit = () => {
    asked++
    return Promise.reject(StaticError.of('unavailable'))
  }
  const joiners = await owner.joiners(64)
  await owner.decide(joiners.map((each) => each.asked))
  assert.ok(asked <= 33, `${asked}`)
  assert.equal(owner.issued.get(owner.invite.record.id)?.record.uses, 0)
})
