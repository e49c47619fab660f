/**
 * Agents that lose their connections at any moment, in the middle of cells too, and a relay whose store and API take
 * their time and fail. Whatever happens, everybody ends with the same log. A run is drawn from its seed:
 * STATIC_SEED=… runs from another one.
 */
import assert from 'node:assert/strict'
import test from 'node:test'
import { toHex } from '@static/protocol'
import type { Entry } from '../../src/ports.ts'
import { makeKey } from '@static/testkit/agent'
import { SEED } from '@static/testkit/random'
import { SimAgent } from '../support/sim-agent.ts'
import { SimNetwork } from '../support/sim-network.ts'

/** More with STATIC_LONG=1. */
const RUNS = process.env['STATIC_LONG'] === '1' ? 200 : 30
const KEYS = Array.from({ length: 5 }, makeKey)
const STEPS = 300
const LAST_STEPS = 60_000

function textOf(entry: Entry): string {
  const id = entry.kind === 'leave' ? '' : toHex(entry.messageId)
  const more = entry.kind === 'message' ? (entry.control ? ' c' : '') : entry.kind === 'commit' ? ` ${entry.slot}` : ''
  return `${entry.kind} ${entry.sender} ${id}${more}`
}

async function run(seed: number, nodes = 1): Promise<{ entries: number; stays: number; gaps: number }> {
  const tight = seed % 4 === 0
  const retention = tight ? { channelEntries: 16 } : {}
  const net = SimNetwork.make(seed, { retention, rates: { commitsPerSecond: 5 } }, nodes)
  Object.assign(net.bus.faults, { drop: 0.3, double: 0.2 })
  const channelId = net.bytes(16)
  const count = 2 + net.below(KEYS.length - 1)
  const agents = KEYS.slice(0, count).map((key, at) => {
    // The owner, one of another account, and guests.
    const jwt = at === 0 ? 'acme' : at === 1 ? 'other' : ''
    return new SimAgent(net, key, channelId, { jwt, owner: at === 0, wanted: 4 + net.below(14) })
  })
  const [owner, ...others] = agents as [SimAgent, ...SimAgent[]]
  owner.create()
  for (const agent of others) owner.chores.out.add(agent.id)

  const pick = (): SimAgent => agents[net.below(agents.length)] ?? owner
  for (let step = 0; step < STEPS; step++) {
    pick().act()
    if (net.chance(0.01)) pick().lose()
    if (nodes > 1 && net.chance(0.01)) net.bus.connect(net.chance(0.5))
    if (net.chance(0.01)) pick().rekey()
    if (net.chance(0.004)) pick().leave()
    if (net.chance(0.004)) owner.remove(others[net.below(others.length)] ?? owner)
    await net.step()
  }
  net.faults = false
  let steps = 0
  const settled = (): boolean => agents.every((agent) => agent.done && agent.last === net.truth.length - 1)
  while (!settled() && steps++ < LAST_STEPS) {
    pick().act()
    await net.step()
  }
  assert.ok(settled(), `it does not come to rest: ${agents.map((agent) => describe(agent, net)).join('; ')}`)
  check(net, agents)
  await net.stop()
  const paid = net.truth.filter((entry) => entry?.kind === 'message' && !entry.control).length
  assert.equal(net.charged, paid, 'charged is what was accepted')
  assert.equal(net.lent, 0, 'every lease is settled')
  assert.deepEqual(net.errors, [])
  const stays = agents.flatMap((agent) => agent.stays)
  return { entries: net.truth.length - 1, stays: stays.length, gaps: stays.flatMap(({ gaps }) => gaps).length }
}

function describe(agent: SimAgent, net: SimNetwork): string {
  const { id, member, last, wanted, done, chores, problems } = agent
  const owes = [...chores.left.keys(), ...chores.out].map((other) => other.slice(0, 6)).join()
  return `${id.slice(0, 6)} member ${member} ${last}/${net.truth.length - 1} wanted ${wanted} done ${done} ${owes} ${problems.join()}`
}

function check(net: SimNetwork, agents: readonly SimAgent[]): void {
  const { truth } = net
  const last = truth.length - 1
  for (let index = 1; index <= last; index++) assert.ok(truth[index], `entry ${index} is missing`)

  // One commit per slot.
  const slots = truth.flatMap((entry) => (entry?.kind === 'commit' ? [entry.slot] : []))
  assert.deepEqual(
    slots,
    slots.map((_, at) => at),
  )

  // Counters rise by one in each stay of a sender, and no id stands twice.
  const counters = new Map<string, number>()
  const ids = new Set<string>()
  let head = 0
  for (const entry of truth) {
    if (!entry) continue
    assert.equal(entry.slot, head, `entry ${entry.index} carries the head`)
    if (entry.kind === 'commit') {
      head++
      for (const id of entry.declaration.adds) counters.set(toHex(id), 0)
    }
    if (entry.kind === 'message') {
      assert.equal(
        entry.counter,
        (counters.get(entry.sender) ?? 0) + 1,
        `entry ${entry.index} has its sender's next counter`,
      )
      counters.set(entry.sender, entry.counter)
    }
    if (entry.kind === 'leave') continue
    const id = `${entry.sender} ${toHex(entry.messageId)}`
    assert.ok(!ids.has(id), `${id} stands in the log twice`)
    ids.add(id)
  }

  for (const agent of agents) {
    assert.deepEqual(agent.problems, [])
    for (const { base, entries, gaps } of agent.stays) {
      const end = Math.max(base, ...entries.keys(), ...gaps.map((gap) => gap.last))
      for (let index = base + 1; index <= end; index++) {
        const entry = truth[index]
        const text = entries.get(index)
        const gone = gaps.some((gap) => gap.first <= index && index <= gap.last)
        if (entry && !gone) assert.equal(text, textOf(entry), `entry ${index} of agent ${agent.id.slice(0, 6)}`)
      }
    }
    assert.equal(agent.last, last)
    assert.equal(toHex(agent.hash), toHex(truth[last]?.hash ?? agent.hash), "the chain that it made is the relay's")
    for (const [id, index] of agent.answered) {
      const entry = truth[index]
      assert.ok(
        entry?.kind === 'message' && toHex(entry.messageId) === id && entry.sender === agent.id,
        `answered ${id}`,
      )
    }
  }
}

test(`${RUNS} simulated channels survive lost connections, lost answers and failing parts`, async (t) => {
  const totals = { entries: 0, stays: 0, gaps: 0 }
  for (let at = 0; at < RUNS; at++) {
    const seed = SEED + at
    try {
      const { entries, stays, gaps } = await run(seed)
      totals.entries += entries
      totals.stays += stays
      totals.gaps += gaps
    } catch (cause) {
      throw new Error(`STATIC_SEED=${seed}: ${String(cause)}`, { cause })
    }
  }
  t.diagnostic(`seeds from ${SEED}: ${totals.entries} entries, ${totals.stays} stays, ${totals.gaps} gaps`)
  assert.ok(totals.gaps > 0 && totals.stays > RUNS * 4, 'the runs meet what they are meant to meet')
})

/** More with STATIC_LONG=1. */
const CLUSTER_RUNS = process.env['STATIC_LONG'] === '1' ? 200 : 8

test(`${CLUSTER_RUNS} simulated channels over three nodes survive the same, and a bus at its worst`, async (t) => {
  let entries = 0
  for (let at = 0; at < CLUSTER_RUNS; at++) {
    const seed = SEED + at
    try {
      entries += (await run(seed, 3)).entries
    } catch (error) {
      t.diagnostic(`seed ${seed}`)
      throw error
    }
  }
  t.diagnostic(`seeds from ${SEED}: ${entries} entries`)
})
