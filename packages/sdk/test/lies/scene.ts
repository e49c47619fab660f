/** What the tests of lies share: a channel of alice, who owns it, bob and carol. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { Channel } from '../../src/public/channel.ts'
import type { StaticClient } from '../../src/public/client.ts'
import type { AgentId } from '../../src/ports/index.ts'
import type { Victim } from '../mls/forbidden-commits.ts'
import { type LyingAgentOptions, LyingSystem } from '../support/lying-system.ts'
import type { Entry, Room } from '../support/lying-room.ts'
import { code } from '../support/test-system.ts'

/** A channel of three. */
export interface Scene {
  readonly world: LyingSystem
  readonly room: Room
  readonly clients: readonly [StaticClient, StaticClient, StaticClient]
  readonly channels: readonly [Channel, Channel, Channel]
  readonly ids: readonly [AgentId, AgentId, AgentId]
}

/** Starts one; each agent may have options of its own. */
export async function scene(
  t: TestContext,
  options: readonly LyingAgentOptions[] = [],
  names: readonly string[] = ['alice', 'bob', 'carol'],
): Promise<Scene> {
  const world = LyingSystem.start(t)
  const clients: StaticClient[] = []
  for (const [at, name] of names.entries()) clients.push(await world.agent(name, options[at]))
  const { room, channels } = await world.channel(clients)
  return {
    world,
    room,
    clients: clients as unknown as Scene['clients'],
    channels: channels as unknown as Scene['channels'],
    ids: clients.map(({ agentId }) => agentId) as unknown as Scene['ids'],
  }
}

/** The last message that was sent. */
export function lastMessage(room: Room): Extract<Entry, { case: 'deliverMessage' }>['value'] {
  const entry = room.log.findLast((entry) => entry.case === 'deliverMessage')
  assert.ok(entry?.case === 'deliverMessage')
  return entry.value
}

/** The last commit that was sent. */
export function lastCommit(room: Room): Extract<Entry, { case: 'deliverCommit' }>['value'] {
  const entry = room.log.findLast((entry) => entry.case === 'deliverCommit')
  assert.ok(entry?.case === 'deliverCommit')
  return entry.value
}

/** A member is told of the fork that another's message shows, and sends nothing more. */
export async function forked(telling: Promise<{ member: AgentId }>, channel: Channel, member: AgentId): Promise<void> {
  assert.equal((await telling).member, member)
  await assert.rejects(channel.send('never'), code('fork_detected'))
}

/** The keys of an agent, as whoever has them could use them. */
export function victim(world: LyingSystem, name: string, agentId: AgentId): Victim {
  const { publicKey, secretKey } = world.stores.get(name)!.load().identity
  return { agentId: Buffer.from(agentId, 'hex'), key: { publicKey, seed: secretKey } }
}
