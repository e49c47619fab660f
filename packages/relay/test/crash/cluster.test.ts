/**
 * Three relay processes over one PostgreSQL and one NATS: nodes are killed and restarted under load, and NATS goes and
 * comes back. What was answered is there, once, in one order, at all nodes.
 */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { toHex } from '@static/protocol'
import { CloseReason } from '@static/protocol/relay'
import { Agent, Refused, type Wire } from '@static/testkit/agent'
import { grpcWire, quicWire } from '@static/testkit/agent/wires'
import { startNats } from '@static/testkit/nats'
import { quietPort } from '@static/testkit/ports'
import { randomNumbers, SEED } from '@static/testkit/random'
import { type Ports, type RelayChild, RelayHome } from '@static/testkit/relay/process'
import { makeClient } from '@static/testkit/server/client'
import { makeKeyPackage } from '../support/key-package.ts'
import { makeScratch } from '../support/postgres.ts'
import { type Bodies, hex, Member } from './member.ts'

const IS_LONG = process.env['STATIC_LONG'] === '1'
/** Rounds of faults, and answers between two faults. */
const ROUNDS = Number(process.env['STATIC_ROUNDS'] ?? (IS_LONG ? 30 : 1))
const ANSWERS = IS_LONG ? 170 : 40
const SETTINGS = {
  rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 },
  retention: { freeCommitBytes: 2 ** 30, freeChannelCommitBytes: 2 ** 30 },
}
/** How often a claim may come too late, on a busy machine. */
const CLAIMS = 20
const NAMES = ['alice', 'bob', 'carol']

/** A cluster of three. */
class Nodes {
  readonly ports: Ports[] = []
  readonly #home: RelayHome
  readonly #start: (ports: Ports) => Promise<RelayChild>
  readonly #running: RelayChild[] = []

  private constructor(home: RelayHome, start: (ports: Ports) => Promise<RelayChild>) {
    this.#home = home
    this.#start = start
  }

  static async start(home: RelayHome, start: (ports: Ports) => Promise<RelayChild>): Promise<Nodes> {
    const nodes = new Nodes(home, start)
    for (const _ of NAMES) nodes.ports.push({ grpc: await quietPort(), quic: await quietPort() })
    // The first creates the tables and the key.
    await nodes.up(0)
    await Promise.all([nodes.up(1), nodes.up(2)])
    for (const [at] of NAMES.entries()) await nodes.#meet(at)
    return nodes
  }

  /** Waits until a node hears all others: before, it tells them nothing. */
  async #meet(at: number): Promise<void> {
    using client = makeClient(`https://localhost:${this.ports[at]!.grpc}`, this.#home.ca)
    const heard = `static_relay_bus_nodes ${NAMES.length - 1}\n`
    while (!(await client.call({ path: '/metrics' })).text.includes(heard)) await delay(20)
  }

  /** Agents at the first node use QUIC, the others gRPC. */
  wire(at: number): Wire {
    const { ca } = this.#home
    const { grpc, quic } = this.ports[at]!
    return at === 0 ? quicWire({ port: quic, ca }) : grpcWire({ port: grpc, ca })
  }

  async up(at: number): Promise<void> {
    this.#running[at] = await this.#start(this.ports[at]!)
  }

  async kill(at: number): Promise<void> {
    this.#running[at]!.kill()
    await this.#running[at]!.exited
  }

  async restart(at: number): Promise<void> {
    await this.#running[at]!.close()
    await this.up(at)
  }

  async stop(): Promise<void> {
    await Promise.all(
      this.#running.map(async (node) => {
        node.kill()
        await node.exited
      }),
    )
  }
}

test(`a cluster under load and faults, seed ${SEED}`, { timeout: IS_LONG ? 3_600_000 : 600_000 }, async (t) => {
  const random = randomNumbers(SEED)
  const home = await RelayHome.make()
  const scratch = await makeScratch()
  const nats = await startNats()
  const access = {
    database: scratch.url,
    keyFile: join(home.directory, 'relay.key'),
    nats: { servers: [nats.url], ca: nats.ca },
  }
  const nodes = await Nodes.start(home, (ports) => home.startNode(SETTINGS, ports, access))
  t.after(async () => {
    await nodes.stop()
    await nats[Symbol.asyncDispose]()
    await scratch.remove()
    await home.remove()
  })
  const jwt = home.api.token('acme')
  const channel = await openChannel(nodes, jwt)

  let answers = 0
  const bodies: Bodies = new Map()
  const members = NAMES.map((name) => new Member(name, channel.id, bodies, random, () => answers++))
  const places = new Map<Member, { readonly agent: Agent; readonly node: number }>()
  const attach = async (member: Member, first: number): Promise<void> => {
    for (let tries = 0; tries < 200; tries++) {
      const node = (first + tries) % NAMES.length
      try {
        const agent = await Agent.connect(nodes.wire(node), { key: member.key, jwt })
        places.set(member, { agent, node })
        return await member.resume(agent)
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error
        await delay(20)
      }
    }
    throw new Error('No node can be reached.')
  }
  await channel.add(members, places)

  let isOver = false
  const lives = members.map(async (member, at) => {
    while (!isOver) {
      await member.work(member.name !== 'carol')
      // Home again if its node is back, else somewhere else.
      if (!isOver) await attach(member, at)
    }
  })
  const progress = async (): Promise<void> => {
    const until = answers + ANSWERS
    while (answers < until) await Promise.race([delay(20), ...lives])
  }
  let kills = 0
  const kill = async (at: number): Promise<void> => {
    kills++
    await nodes.kill(at)
    // As an agent's ping would find out.
    for (const { agent, node } of places.values()) if (node === at) agent.close()
    await progress()
    await nodes.up(at)
  }
  for (let round = 0; round < ROUNDS; round++) {
    await progress()
    await nats.stop()
    await progress()
    await kill(round % 3)
    await nats.start()
    await progress()
    await nodes.restart((round + 1) % 3)
    // A rolling restart takes long, and kills without NATS are the harder ones.
    if (IS_LONG) await kill((round + 2) % 3)
  }
  await progress()
  isOver = true
  for (const { agent } of places.values()) agent.close()
  await Promise.all(lives)
  for (const [at, member] of members.entries()) {
    await attach(member, at)
    await member.settle()
  }
  await check(members, bodies)
  t.diagnostic(`promise T1: three nodes, seed ${SEED}: ${answers} answers over ${kills} kills, 0 lost`)
  for (const { agent } of places.values()) agent.close()
})

interface Opened {
  readonly id: Uint8Array
  /** Adds members, each at its own node. */
  add(members: readonly Member[], places: Map<Member, { readonly agent: Agent; readonly node: number }>): Promise<void>
}

/** A channel whose owner is at the first node; KeyPackages and replaced sessions go from node to node. */
async function openChannel(nodes: Nodes, jwt: string): Promise<Opened> {
  const owner = await Agent.connect(nodes.wire(0), { jwt })
  const id = await owner.createChannel('acme/test/cluster')
  return {
    id,
    add: async (members, places) => {
      const sessions: Agent[] = []
      for (const [at, { key }] of members.entries()) {
        const older = await Agent.connect(nodes.wire((at + 1) % 3), { key, jwt })
        await claim(id, owner, older)
        const session = await Agent.connect(nodes.wire(at), { key, jwt })
        assert.equal((await older.next('sessionClosing')).reason, CloseReason.REPLACED)
        await session.request('resume', {})
        sessions.push(session)
      }
      await owner.commit(id, 0n, { adds: members.map(({ key }) => key.id) })
      for (const [at, member] of members.entries()) {
        const session = sessions[at]!
        const { position } = await session.next('deliverWelcome')
        assert.ok(position)
        member.begin(position.index, position.hash)
        places.set(member, { agent: session, node: at })
        await member.resume(session)
      }
      owner.close()
    },
  }
}

/** Claims a KeyPackage at another node. A node that has no answer within a second says that there is none. */
async function claim(channelId: Uint8Array, owner: Agent, other: Agent): Promise<void> {
  const uploaded = new Set<string>()
  for (let tries = 0; ; tries++) {
    const keyPackage = makeKeyPackage(other.key.publicKey)
    uploaded.add(toHex(keyPackage))
    await other.request('uploadKeyPackage', { keyPackages: [keyPackage] })
    try {
      const claimed = await owner.request('addMember', { channelId, agentId: other.key.id })
      assert.ok(uploaded.has(toHex(claimed.keyPackage)))
      return
    } catch (error) {
      if (tries === CLAIMS || !(error instanceof Refused) || error.code !== 'key_package_unavailable') throw error
    }
  }
}

/** Everybody has the same log, with everything that was answered, once. */
async function check(members: readonly Member[], bodies: Bodies): Promise<void> {
  const indexes = members.flatMap(({ lastIndex, answered }) => [lastIndex, ...answered.values()])
  const last = indexes.reduce((most, index) => (index > most ? index : most), 0n)
  for (const member of members) {
    await member.until(last)
    assert.deepEqual(member.log, members[0]?.log, 'Members have seen different logs.')
    assert.equal(new Set(member.log.values()).size, member.log.size, 'Something is there twice.')
    for (const [id, index] of member.answered) assert.equal(member.log.get(index), id, `${id} is not at ${index}`)
    const own = [...member.log.values()].map((id) => bodies.get(id)).filter((entry) => entry?.kind === 'message')
    const sent = own.filter((entry) => hex(entry?.sender ?? new Uint8Array()) === hex(member.key.id))
    assert.equal(BigInt(sent.length), member.sent)
  }
}
