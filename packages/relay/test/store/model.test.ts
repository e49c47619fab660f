/**
 * Random stories, told to two engines at once: they must answer and tell the same, and what they keep must hold
 * together. Several operations go out together, so that the second engine takes them as one batch; now and then its
 * file is closed and opened again, or the process crashes and the next one goes on with what is on disk. With
 * PostgreSQL, three nodes take turns.
 */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import * as fc from 'fast-check'
import type { StoreRequest, Retention, Store, StoreEvent, StoreListener, StoreOperation } from '../../src/ports.ts'
import { SEED } from '@static/testkit/random'
import { openMemoryStore } from '@static/testkit/store/relay-memory'
import { openSqliteStore } from '../../src/store/sqlite/store.ts'
import { emptyScratch, openScratch } from '../support/postgres.ts'
import {
  START,
  account,
  agentId,
  assertChain,
  bytesOf,
  crashed,
  guest,
  hex16,
  id16,
  member,
  notice,
  reopened,
  rowsIn,
  sha256,
  temporaryFile,
  text,
  welcomeFor,
} from './channel-fixture.ts'

/** More with STATIC_MODEL_RUNS. */
const RUNS = Number(process.env['STATIC_MODEL_RUNS'] ?? 10)
const CLUSTER_RUNS = Math.ceil(RUNS / 5)
const NODES = 3
/** Room for one record and some packed ones: most channels are unpacked whenever they are used. */
const CACHED_BYTES = 12_000
/** Small, so that everything happens: full channels, expiry, forgotten ids. */
const RETENTION: Retention = {
  entryMs: 20_000,
  messageIdMs: 30_000,
  channelBytes: 8000,
  channelEntries: 16,
  accountBytes: 10_000,
  freeControl: 2,
  freeCommitBytes: 3000,
  freeChannelCommitBytes: 4500,
  memberAddsPerHour: 3,
}
const AGENTS = ['alice', 'bob', 'carol', 'dave', 'erin']
const CHANNELS = ['one', 'two']

/** One step: what it does follows from these numbers and from what was answered so far. */
const step = fc.record({
  kind: fc.oneof(
    { weight: 12, arbitrary: fc.constant('append' as const) },
    { weight: 8, arbitrary: fc.constant('ack' as const) },
    { weight: 5, arbitrary: fc.constant('commit' as const) },
    {
      weight: 8,
      arbitrary: fc.constantFrom(
        'allot' as const,
        'create' as const,
        'delete' as const,
        'reject' as const,
        'liftBar' as const,
        'resetRoster' as const,
        'welcome' as const,
        'leave' as const,
        'check' as const,
        'resume' as const,
        'welcomes' as const,
        'read' as const,
        'registerInvite' as const,
        'revokeInvite' as const,
        'invite' as const,
        'answerJoin' as const,
      ),
    },
    { weight: 2, arbitrary: fc.constantFrom('requestJoin' as const, 'takeJoins' as const) },
    { weight: 3, arbitrary: fc.constant('sweep' as const) },
  ),
  agent: fc.nat(AGENTS.length - 1),
  other: fc.nat(AGENTS.length - 1),
  channel: fc.oneof({ weight: 6, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(1) }),
  /** Whether the Welcomes come with the commit. */
  welcomes: fc.boolean(),
  /** Mostly what is right; the higher, the further off. */
  twist: fc.oneof({ weight: 8, arbitrary: fc.constant(0) }, { weight: 2, arbitrary: fc.nat(9) }),
  size: fc.oneof({ weight: 9, arbitrary: fc.nat(300) }, { weight: 1, arbitrary: fc.nat(5000) }),
  pause: fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(8000) }),
})
/** Two of the three invites are for members. */
const isForMembers = ({ size }: Pick<Step, 'size'>): boolean => size % 3 > 0
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never

const story = fc.array(fc.record({ together: fc.array(step, { minLength: 1, maxLength: 8 }), reopen: fc.nat(24) }), {
  minLength: 30,
  maxLength: 60,
})

type Asked = { readonly [Name in StoreOperation]: readonly [Name, StoreRequest<Name>] }[StoreOperation]

/** What the agents of a story know. */
class Knowledge {
  now = START
  readonly heads = new Map<string, number>()
  readonly counters = new Map<string, number>()
  readonly lasts = new Map<string, number>()
  readonly hashes = new Map<string, Uint8Array>()
  readonly left = new Map<string, number>()
  readonly members = new Map<string, true>()
  /** Of the last commit that has added somebody: who sent it, in which slot, and whom. */
  readonly added = new Map<string, { readonly sender: string; readonly slot: number; readonly agent: string }>()
  /** The last join request. */
  #asked = { invite: hex16('none'), agent: agentId('alice') }
  #made = 0

  /** All but one are in the first channel from the start. */
  opening(): StoreRequest<'commit'> {
    const adds = AGENTS.slice(1, -1).map((name) => bytesOf(agentId(name)))
    return {
      actor: member('alice'),
      channel: hex16('one'),
      slot: 0,
      messageId: id16('opening'),
      commit: text('opening'),
      declaration: {
        adds,
        removes: [],
        leaveNotices: [],
        vouches: adds.slice(1),
        owner: new Uint8Array(),
        standby: new Uint8Array(),
        signature: sha256('declaration'),
      },
      welcomes: AGENTS.slice(1, -1).map((name) => welcomeFor(name)),
      groupInfo: text('group info'),
      paid: 0,
      maxChannels: 2,
      guestLimit: 3,
      now: this.now,
    }
  }

  request(step: Step): Asked {
    this.now += step.pause
    const name = AGENTS[step.agent]!
    const other = AGENTS[step.other]!
    const label = CHANNELS[step.channel]!
    const channel = hex16(label)
    // The last two are guests, as a rule.
    const actor = step.agent > 2 === (step.twist !== 6) ? guest(name) : member(name)
    const slot = Math.max(0, (this.heads.get(channel) ?? 0) - (step.twist === 1 ? 1 : 0))
    const now = this.now
    const fresh = id16(`id ${step.twist === 2 ? step.size % 5 : this.#made++}`)
    switch (step.kind) {
      case 'allot': {
        const channelBytes = step.twist === 0 ? undefined : 1000 * step.twist
        const accountBytes = step.size % 3 === 0 ? undefined : 12_000 - step.size
        return ['allot', { account: account('alice'), channelBytes, accountBytes, at: now - 1000 * step.twist }]
      }
      case 'create':
        // Alice owns nearly all, so that there is something to do.
        return [
          'create',
          {
            actor: step.twist === 0 ? member('alice') : member(name),
            channel,
            name: `acme/support/${label}`,
            welcome: text('founding'),
            guestLimit: 4,
            maxChannels: 2,
            now,
          },
        ]
      case 'delete':
        return [
          'delete',
          {
            account: account(step.size % 5 === 0 ? 'alice' : name),
            channel: step.size % 5 === 0 ? channel : hex16('none'),
            name: undefined,
          },
        ]
      case 'append': {
        const counter = (this.counters.get(`${channel} ${name}`) ?? 0) + 1 + (step.twist === 3 ? 1 : 0)
        const control = step.twist === 4
        return [
          'append',
          {
            actor,
            channel,
            slot,
            messageId: fresh,
            counter,
            control,
            ciphertext: new Uint8Array(step.size),
            paid: step.twist === 5 ? undefined : (actor.account ?? account('alice')),
            now,
          },
        ]
      }
      case 'commit': {
        // Now and then, one names a standby, or takes over.
        const isOwnership = step.size % 5 === 3
        const removes = !isOwnership && (step.twist > 5 || this.left.has(`${channel} ${other}`)) ? [other] : []
        const absent =
          !isOwnership &&
          (removes.length > 0 ? step.twist === 9 : !this.members.has(`${channel} ${other}`) || step.twist === 4)
        const adds = absent ? [other] : []
        const leftAt = this.left.get(`${channel} ${other}`)
        const declaration = {
          adds: adds.map((agent) => bytesOf(agentId(agent))),
          removes: removes.map((agent) => bytesOf(agentId(agent))),
          leaveNotices: removes.length > 0 && leftAt !== undefined ? [notice(other, leftAt)] : [],
          vouches: step.size % 2 === 0 && name === 'alice' ? adds.map((agent) => bytesOf(agentId(agent))) : [],
          owner: isOwnership ? bytesOf(agentId(step.welcomes ? 'alice' : name)) : new Uint8Array(),
          standby: isOwnership && step.welcomes && step.twist > 0 ? bytesOf(agentId(other)) : new Uint8Array(),
          signature: sha256('declaration'),
        }
        const welcomes = adds.map((agent) => welcomeFor(agent, { inviteId: id16(`invite ${step.size % 3}`) }))
        return [
          'commit',
          {
            actor,
            channel,
            slot,
            messageId: fresh,
            commit: new Uint8Array(step.size),
            declaration,
            welcomes: step.welcomes ? welcomes : [],
            groupInfo: new Uint8Array(step.welcomes ? step.size % 50 : 0),
            paid: step.twist === 5 ? 9 : 0,
            maxChannels: 2,
            guestLimit: 3,
            now,
          },
        ]
      }
      case 'reject':
        return ['reject', { actor, channel, slot: Math.max(0, slot - 1 - (step.twist % 3)) }]
      case 'liftBar':
        // Half of them are vouches instead.
        if (step.welcomes) return ['liftBar', { actor, channel, agent: agentId(other) }]
        return ['vouch', { actor: step.twist === 0 ? member('alice') : actor, channel, slot, agents: [agentId(other)] }]
      case 'resetRoster': {
        const index = this.lasts.get(channel) ?? 0
        const hash = this.hashes.get(channel) ?? text('none')
        const position = { index: step.twist === 3 ? index - 1 : index, hash, slot }
        // Some of those in the group, and one more now and then.
        const named = AGENTS.filter((each, at) => at === 0 || (step.size >> at) % 4 > 0 || each === other)
        const by = step.twist === 0 ? member('alice') : actor
        return [
          'resetRoster',
          { actor: by, channel, position, agents: named.map(agentId), vouched: named.slice(0, 2).map(agentId) },
        ]
      }
      case 'welcome': {
        const { sender, agent, slot: taken } = this.added.get(channel) ?? { sender: name, agent: other, slot }
        const by = AGENTS.indexOf(sender) > 2 ? guest(sender) : member(sender)
        const right = { actor: by, slot: taken, welcome: welcomeFor(agent) }
        const wrong = { actor, slot: Math.max(0, slot - 1), welcome: welcomeFor(other) }
        return ['welcome', { channel, ...(step.twist === 0 ? right : wrong), paid: step.twist % 3, now }]
      }
      case 'leave':
        return ['leave', { actor, channel, notice: notice(name, this.left.get(`${channel} ${name}`) ?? slot), now }]
      case 'check':
        return ['check', { actor, channel }]
      case 'resume':
        return [
          'resume',
          {
            agent: agentId(name),
            channels: step.twist > 4 ? CHANNELS.map(hex16) : undefined,
            after: step.twist === 3 ? channel : undefined,
            limit: step.twist === 2 ? 1 : 10,
            // All of them: which of several with one cursor comes first is up to the engine.
            receipts: step.twist % 2 === 0 ? 250 : 0,
          },
        ]
      case 'welcomes':
        return ['welcomes', { agent: agentId(name), after: 0, maxBytes: step.size * 10 }]
      case 'ack':
        return [
          'ack',
          {
            agent: agentId(name),
            positions: [
              {
                channel,
                index: Math.max(0, (this.lasts.get(channel) ?? 0) - (step.size % 12)),
                receipt: step.twist > 2 ? new Uint8Array(129).fill(step.size % 256) : undefined,
              },
            ],
          },
        ]
      case 'read':
        return ['read', { channel, agent: agentId(name), after: step.size % 30, maxBytes: 2000, maxEntries: 10 }]
      case 'registerInvite': {
        const invite = {
          id: hex16(`invite ${step.size % 3}`),
          channel,
          admissionKey: text('k'),
          expiresAt: now + 20_000,
          maxUses: 1,
          members: isForMembers(step),
        }
        return ['registerInvite', { actor: member(step.twist === 0 ? 'alice' : name), invite, maxInvites: 2, now }]
      }
      case 'revokeInvite':
        return ['revokeInvite', { agent: agentId(name), id: hex16(`invite ${step.size % 3}`), now }]
      case 'invite':
        return ['invite', { id: hex16(`invite ${step.size % 3}`) }]
      case 'requestJoin': {
        const common = { invite: hex16(`invite ${step.size % 3}`), channel, agent: agentId(other) }
        const owner = isForMembers(step) ? undefined : agentId('alice')
        const join = { ...common, owner, box: new Uint8Array(step.size), until: now + 20_000 }
        this.#asked = common
        return ['requestJoin', { join, maxPerInvite: 2, maxPerOwner: 2, maxBytes: 2500, now }]
      }
      case 'takeJoins': {
        // Numbers of requests differ between engines: all of them are new, or none.
        const after = step.twist > 4 ? Number.MAX_SAFE_INTEGER : 0
        const asked = { channel, after, maxRequests: 4, maxBytes: 400, mayWait: step.size % 2 === 0 }
        return ['takeJoins', { actor: member(name), ...asked, now }]
      }
      case 'answerJoin': {
        const { invite, agent } = this.#asked
        return [
          'answerJoin',
          { owner: agentId(step.twist === 0 ? 'alice' : name), invite, agent, code: 'group_full', now },
        ]
      }
      case 'sweep':
        return ['sweep', { now }]
    }
  }

  learn([name, request]: Asked, result: object, events: readonly StoreEvent[]): void {
    if (name === 'create' && 'welcome' in result && !this.heads.has(request.channel)) this.heads.set(request.channel, 0)
    if (name === 'append' && 'lastCounter' in result) {
      const agent = AGENTS.find((each) => agentId(each) === request.actor.agent)
      this.counters.set(`${request.channel} ${agent}`, result.lastCounter as number)
    }
    for (const event of events) {
      if (event.type === 'deleted') {
        for (const map of [this.heads, this.lasts, this.hashes, this.added]) map.delete(event.channel)
        for (const map of [this.counters, this.left, this.members])
          for (const key of map.keys()) if (key.startsWith(event.channel)) map.delete(key)
      }
      if (event.type === 'rosterReset') {
        for (const agent of AGENTS) {
          const key = `${event.channel} ${agent}`
          if (event.dropped.includes(agentId(agent))) {
            this.members.delete(key)
            this.left.delete(key)
          }
          if (event.returned.includes(agentId(agent))) this.members.set(key, true)
        }
      }
      if (event.type !== 'appended') continue
      const { channel, entry } = event
      const key = `${channel} ${AGENTS.find((agent) => agentId(agent) === entry.sender)}`
      this.lasts.set(channel, entry.index)
      this.hashes.set(channel, entry.hash)
      if (entry.kind === 'message') this.counters.set(key, entry.counter)
      if (entry.kind === 'leave') {
        this.left.set(key, entry.slot)
        this.members.delete(key)
      }
      if (entry.kind === 'commit') {
        this.heads.set(channel, entry.slot + 1)
        for (const agent of AGENTS) {
          const listed = (list: readonly Uint8Array[]): boolean =>
            list.some((id) => Buffer.from(id).toString('hex') === agentId(agent))
          if (listed(entry.declaration.removes)) {
            this.left.delete(`${channel} ${agent}`)
            this.members.delete(`${channel} ${agent}`)
          }
          if (listed(entry.declaration.adds)) {
            this.counters.delete(`${channel} ${agent}`)
            const sender = AGENTS.find((each) => agentId(each) === entry.sender)!
            this.added.set(channel, { sender, slot: entry.slot, agent })
            this.members.set(`${channel} ${agent}`, true)
          }
        }
      }
    }
  }
}

const NUMBERS = ['sequence', 'lastNumber', 'number']

/** The same text for the same meaning: engines differ in the kinds of their arrays, and in the order of sets. */
function comparable(value: unknown): string {
  const walk = (field: unknown): unknown => {
    if (typeof field === 'bigint') return `${field}n`
    if (typeof field !== 'object' || field === null) return field
    if (field instanceof Uint8Array) return Buffer.from(field).toString('hex')
    if (Array.isArray(field)) return field.map(walk)
    // Sequences of Welcomes and numbers of join requests may have gaps.
    const entries = Object.entries(field).filter(([key, item]) => item !== undefined && !NUMBERS.includes(key))
    return Object.fromEntries(
      entries
        .sort(([one], [another]) => (one < another ? -1 : 1))
        .map(([key, item]) => [
          key,
          ['members', 'dropped', 'returned'].includes(key) && Array.isArray(item)
            ? (item as string[]).toSorted()
            : key === 'pending' && Array.isArray(item)
              ? item.length
              : key === 'receipts' && Array.isArray(item)
                ? (item as { agent: string }[])
                    .map(walk)
                    .map((each) => JSON.stringify(each))
                    .sort()
                : walk(item),
        ]),
    )
  }
  return JSON.stringify(walk(value))
}

/** Every member finds its log whole from its cursor on, or is told of a gap. */
async function checkLogs(store: Store): Promise<void> {
  for (const channel of CHANNELS.map(hex16)) {
    for (const agent of AGENTS.map(agentId)) {
      const { standings } = await store.run('resume', { agent, channels: [channel], after: undefined, limit: 1 })
      const [standing] = standings
      if (!standing || !('cursor' in standing)) continue
      const { cursor, lastIndex } = standing
      const bounds = { maxBytes: 1e9, maxEntries: 1e9 }
      const { gap, entries, last } = await store.run('read', { channel, agent, after: cursor.index, ...bounds })
      assert.equal(last, lastIndex)
      if (gap) assert.equal(gap.first, cursor.index + 1)
      const end = assertChain(channel, entries, gap?.position ?? cursor)
      assert.equal(end.index, last)
      assert.equal(end.slot, standing.head)
      const ids = entries.flatMap((entry) =>
        entry.kind === 'leave' ? [] : [`${entry.kind} ${entry.sender} ${Buffer.from(entry.messageId).toString('hex')}`],
      )
      // Within the life of an id nothing is accepted twice.
      assert.equal(new Set(ids).size, ids.length)
    }
  }
}

/** The story itself would fill pages; the path finds it again. */
async function asyncReporter<Story>(run: fc.RunDetails<Story>): Promise<void> {
  if (run.failed) throw new Error(`seed ${run.seed}, path ${run.counterexamplePath}`, { cause: run.errorInstance })
}

/** The engine that is compared with the one in memory. */
interface Other {
  /** The store for the next operations. */
  turn(): Store
  /** Closes a store and opens it again. */
  reopen(): Promise<void>
  /** Goes on with what a crash leaves on disk. */
  crash?(): Promise<void>
  close(): Promise<void>
}

type OpenOther = (listener: StoreListener) => Promise<Other>

/** Tells the story to both, and compares them. */
async function tell(
  chapters: readonly { readonly together: readonly Step[]; readonly reopen: number }[],
  openOther: OpenOther,
  met: Map<string, number>,
): Promise<void> {
  const told: [StoreEvent[], StoreEvent[]] = [[], []]
  const memory = await openMemoryStore({ retention: RETENTION }, (event) => told[0].push(event))
  const other = await openOther((event) => told[1].push(event))
  try {
    const knowledge = new Knowledge()
    for (const label of CHANNELS) {
      const founding = { channel: hex16(label), name: `acme/support/${label}`, welcome: text('founding') }
      const request = { actor: member('alice'), ...founding, guestLimit: 4, maxChannels: 2, now: START }
      await Promise.all([memory.run('create', request), other.turn().run('create', request)])
    }
    const first = knowledge.opening()
    const begun = await Promise.all([memory.run('commit', first), other.turn().run('commit', first)])
    assert.equal(comparable(begun[1]), comparable(begun[0]))
    knowledge.learn(['commit', first], begun[0], told[0])
    for (const list of told) list.length = 0
    for (const { together, reopen } of chapters) {
      const asked = together.map((each) => knowledge.request(each))
      const run = (store: Store): Promise<object[]> =>
        Promise.all(asked.map(([name, request]) => store.run(name, request as never) as Promise<object>))
      const results = await Promise.all([run(memory), run(other.turn())])
      for (const [at, [name, request]] of asked.entries()) {
        const [one, another] = results.map((list) => comparable(list[at]))
        assert.equal(another, one, `${name} ${comparable(request)}`)
        const result = results[0][at]!
        const code = 'refused' in result ? result.refused : 'unpaid' in result ? 'unpaid' : 'done'
        met.set(`${name} ${String(code)}`, (met.get(`${name} ${String(code)}`) ?? 0) + 1)
      }
      assert.equal(comparable(told[1]), comparable(told[0]))
      for (const [at, each] of asked.entries()) knowledge.learn(each, results[0][at]!, at === 0 ? told[0] : [])
      for (const list of told) list.length = 0
      if (reopen === 0) await other.reopen()
      if (reopen === 1) await other.crash?.()
    }
    await checkLogs(memory)
    await checkLogs(other.turn())
  } finally {
    await other.close()
  }
}

async function tellMany(t: TestContext, runs: number, openOther: OpenOther): Promise<Map<string, number>> {
  t.diagnostic(`seed ${SEED}, ${runs} runs`)
  const met = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(story, (chapters) => tell(chapters, openOther, met)),
    { seed: SEED, numRuns: runs, endOnFailure: true, asyncReporter },
  )
  const sorted = [...met].sort(([one], [another]) => (one < another ? -1 : 1))
  t.diagnostic(sorted.map(([what, times]) => `${what}: ${times}`).join(', '))
  return met
}

test('sqlite returns the same results and events as memory', { timeout: 300_000 }, async (t: TestContext) => {
  const met = await tellMany(t, RUNS, async (listener) => {
    let path = temporaryFile(t)
    let crashes = 0
    const open = (): Promise<Store> => openSqliteStore({ path, retention: RETENTION }, listener)
    let store = await open()
    return {
      turn: () => store,
      async reopen() {
        await store.close()
        store = await open()
      },
      async crash() {
        const old = { store, path }
        path = await crashed(store, path, `crash ${++crashes}`)
        store = await open()
        await old.store.close()
        // The rows that follow from the log are the same, whether they were written or followed again.
        const again = await crashed(store, path, 'again')
        reopened(again, RETENTION)
        assert.deepEqual(rowsIn(again), rowsIn(old.path))
      },
      close: () => store.close(),
    }
  })
  const expected = 'append done, append queue_full, commit done, commit unpaid, commit rate_limited'
  const others = 'reject done, leave done, delete done, vouch done, resetRoster done, welcome done'
  const joins = 'requestJoin done, requestJoin rate_limited, answerJoin done, commit invite_expired'
  for (const what of `${expected}, ${others}, ${joins}`.split(', ')) assert.ok(met.get(what), what)
})

test('three nodes over one PostgreSQL that take turns answer like one store in memory', async (t: TestContext) => {
  const met = await tellMany(t, CLUSTER_RUNS, async (listener) => {
    const scratch = await emptyScratch()
    // What other nodes have acknowledged and stored counts at once.
    const options = { lanes: 1, freshMs: 0, cachedBytes: CACHED_BYTES }
    const open = (): Promise<Store> => openScratch(scratch, RETENTION, listener, options)
    const nodes = await Promise.all(Array.from({ length: NODES }, open))
    let turns = 0
    return {
      // Several turns in a row: what a node remembers is current for some of them.
      turn: () => nodes[Math.floor(turns++ / 4) % NODES]!,
      async reopen() {
        await nodes[0]?.close()
        nodes[0] = await open()
      },
      async close() {
        await Promise.all(nodes.map((node) => node.close()))
      },
    }
  })
  for (const what of ['append done', 'append queue_full', 'commit done', 'ack done', 'sweep done']) {
    assert.ok(met.get(what), what)
  }
})
