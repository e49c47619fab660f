/**
 * Members come and go on a whole cluster while its parts are killed, restarted and cut off: during each fault one agent
 * joins with an invite, another is added by its id, both talk, the first is removed and the second leaves. All agree on
 * the members, no agent gets messages sent after its removal, and each ends up with one session, however often
 * it had to open another one elsewhere. A part of `npm run proof -- cluster`; `STATIC_ROUNDS` repeats it.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { type Channel, StaticChannelManager, StaticError } from '@static/sdk'
import { randomBelow, SEED } from '@static/testkit/random'
import { signUp } from '@static/testkit/server/accounts'
import { makeClient } from '@static/testkit/server/client'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace, type Workspace } from '@static/testkit/server/workspace'
import { Cluster, type Part, RELAY_NODES } from '../../tests/support/cluster.ts'

const CHANNEL = 'acme/cluster/members'
const ROUNDS = Number(process.env['STATIC_ROUNDS'] ?? 1)
const JOIN_SECONDS = 120
/** Pause between two tries of something that a fault can make fail. */
const PAUSE_MS = 250
/** Errors that an agent may get while parts of the cluster are down. */
const PASSING = new Set(['key_package_unavailable', 'unavailable', 'transport_error', 'connection_error', 'timeout'])
const random = randomBelow(SEED)

/** A manager that is a member of the channel, and the messages that it got. */
class Member {
  readonly manager: StaticChannelManager
  readonly heard: string[] = []
  /** Why it gets no more messages. */
  readonly ended: Promise<string>
  #wake: PromiseWithResolvers<void> = Promise.withResolvers<void>()

  constructor(manager: StaticChannelManager) {
    this.manager = manager
    this.ended = this.#listen()
  }

  get id(): string {
    return this.manager.client.agentId
  }

  get channel(): Channel {
    return this.manager.client.channel(CHANNEL)
  }

  async say(text: string): Promise<void> {
    await this.manager.send(CHANNEL, text)
  }

  async hears(text: string): Promise<void> {
    while (!this.heard.includes(text)) await this.#wake.promise
  }

  async #listen(): Promise<string> {
    try {
      for await (const payload of this.channel.messages()) {
        this.heard.push(Buffer.from(payload).toString())
        this.#wake.resolve()
        this.#wake = Promise.withResolvers<void>()
      }
      return 'ended'
    } catch (error) {
      return StaticError.from(error).code
    }
  }
}

/** The agents of one account. */
class Crowd implements AsyncDisposable {
  readonly #workspace: Workspace
  readonly #cluster: Cluster
  readonly #apiKey: string
  readonly #connected = new Set<StaticChannelManager>()
  #count = 0

  constructor(workspace: Workspace, cluster: Cluster, apiKey: string) {
    this.#workspace = workspace
    this.#cluster = cluster
    this.#apiKey = apiKey
  }

  /** How many are connected. */
  get size(): number {
    return this.#connected.size
  }

  async connect(): Promise<StaticChannelManager> {
    const identity = `agent-${this.#count++}`
    const manager = await StaticChannelManager.connect({
      identity,
      endpoint: this.#cluster.endpoint(this.#count % 2 === 0 ? 'quic' : 'grpc'),
      relayName: 'localhost',
      apiUrl: this.#cluster.apiUrl(random(2)),
      apiKey: this.#apiKey,
      dataDir: this.#workspace.directory(identity),
      ca: this.#workspace.caFile,
      traffic: 'off',
      wait: true,
    })
    this.#connected.add(manager)
    return manager
  }

  async close(manager: StaticChannelManager): Promise<void> {
    this.#connected.delete(manager)
    await manager.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#connected].map((manager) => manager.close()))
  }
}

/** Retries something until the fault lets it succeed. */
async function persistently<Result>(work: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!PASSING.has(StaticError.from(error).code)) throw error
      await delay(PAUSE_MS)
    }
  }
}

async function joined(crowd: Crowd, token: string): Promise<Member> {
  const manager = await crowd.connect()
  await persistently(() => manager.joinWithToken(CHANNEL, token, JOIN_SECONDS))
  return new Member(manager)
}

/** Without NATS, KeyPackages stay at the node that has them: then the agent hands one over itself. */
async function added(crowd: Crowd, owner: Member, isBusAway: boolean): Promise<Member> {
  const manager = await crowd.connect()
  const { client } = manager
  const accepted = (async (): Promise<void> => {
    for await (const offer of client.joins()) {
      if (offer.name !== CHANNEL) continue
      await offer.accept()
      return
    }
  })()
  await persistently(async () => {
    if (owner.channel.members().some(({ agentId }) => agentId === client.agentId)) return
    await owner.channel.addMember(isBusAway ? await client.generateKeyPackage() : client.agentId)
  })
  await accepted
  return new Member(manager)
}

/** One agent comes by an invite and another is added; both talk, and go. */
async function comeAndGo(crowd: Crowd, [owner, stayer]: readonly [Member, Member], label: string): Promise<void> {
  const step = (what: string): void => void process.stderr.write(`${label}: ${what}\n`)
  const token = await persistently(() => owner.manager.invite(CHANNEL, { maxUses: 1 }))
  const [guest, colleague] = await Promise.all([joined(crowd, token), added(crowd, owner, label.includes('NATS'))])
  step('both are members')
  const all = [owner, stayer, guest, colleague]
  await Promise.all(
    all.map(async (member, at) => {
      const text = `${label}: ${at} is here`
      await member.say(text)
      await Promise.all(all.filter((other) => other !== member).map((other) => other.hears(text)))
    }),
  )
  step('all have talked')
  await persistently(() => owner.channel.removeMember(guest.id))
  const after = `${label}: after the removal`
  await owner.say(after)
  await Promise.all([stayer.hears(after), colleague.hears(after)])
  step('the guest is removed')
  assert.equal(await guest.ended, 'removed')
  assert.ok(!guest.heard.includes(after))
  await persistently(() => colleague.channel.leave())
  step('both are gone')
  await Promise.all([crowd.close(guest.manager), crowd.close(colleague.manager)])
}

/** Breaks part of the cluster; returns a function that repairs it. */
type Fault = (cluster: Cluster, at: number) => Promise<() => Promise<void>>

const cutOff =
  (part: Part): Fault =>
  async (cluster, at) => {
    cluster.cut(at, part)
    return async () => cluster.mend(at, part)
  }

const FAULTS: Readonly<Record<string, Fault>> = {
  'no fault': async () => async () => {},
  'relay node killed': async (cluster, at) => {
    await cluster.killRelay(at)
    return () => cluster.startRelay(at)
  },
  'rolling restart': async (cluster) => {
    const restarted = (async (): Promise<void> => {
      for (let node = 0; node < RELAY_NODES; node++) {
        await cluster.stopRelay(node)
        await cluster.startRelay(node)
      }
    })()
    restarted.catch(() => {})
    return () => restarted
  },
  'NATS gone': async ({ nats }) => {
    await nats.stop()
    return () => nats.start()
  },
  'cut off from NATS': cutOff('nats'),
  'cut off from PostgreSQL': cutOff('postgres'),
  'primary killed, restarted': async ({ postgres: { primary } }) => {
    await primary.kill()
    const restarted = primary.start()
    return () => restarted
  },
}

function shuffled(names: readonly string[]): string[] {
  const left = [...names]
  return names.flatMap(() => left.splice(random(left.length), 1))
}

test(`members come and go while a cluster fails, seed ${SEED}`, { timeout: 3_600_000 }, async (t) => {
  using workspace = await makeWorkspace()
  const relay = { session: { pingMs: 1000, pongMs: 1000 } }
  await using cluster = await Cluster.start(workspace, { api: QUICK, relay })
  using client = makeClient(cluster.apiUrl(0), workspace.ca)
  const { api_key: key } = await signUp(client)
  await using crowd = new Crowd(workspace, cluster, key.key)
  const manager = await crowd.connect()
  await manager.create(CHANNEL)
  const owner = new Member(manager)
  const stayer = await joined(crowd, await manager.invite(CHANNEL, { maxUses: 1 }))

  for (let round = 0; round < ROUNDS; round++) {
    for (const name of shuffled(Object.keys(FAULTS))) {
      const started = performance.now()
      const [at = 0] = await cluster.busiest()
      const repair = await FAULTS[name]?.(cluster, at)
      await comeAndGo(crowd, [owner, stayer], `${round} ${name}`)
      await repair?.()
      t.diagnostic(`${name}: ${((performance.now() - started) / 1000).toFixed(1)} s`)
      // A stale session at a node that was cut off ends when the node hears of the newer one, or times out.
      while ((await cluster.sessions()) !== crowd.size) await delay(PAUSE_MS)
    }
  }
  const expected = [owner.id, stayer.id].sort()
  for (const member of [owner, stayer]) {
    // The last removal is a commit of its own.
    while (member.channel.members().length > expected.length) await delay(PAUSE_MS)
    assert.deepEqual(
      member.channel
        .members()
        .map(({ agentId }) => agentId)
        .sort(),
      expected,
    )
    assert.equal(new Set(member.heard).size, member.heard.length, 'nothing twice')
  }
})
