/** Agents with accounts, connected to real servers. */
import assert from 'node:assert/strict'
import type { IssuedToken } from '@static/protocol'
import { Agent, type AgentKey, makeKey, Refused } from '@static/testkit/agent'
import { grpcWire, quicWire } from '@static/testkit/agent/wires'
import type { Client } from '@static/testkit/server/client'

export { Agent, type AgentKey, Refused } from '@static/testkit/agent'

/** An endpoint of a relay: a port and its protocol. */
export interface Way {
  readonly by: 'quic' | 'grpc'
  readonly port: number
  /** PEM. */
  readonly ca: string
}

/** Exchanges an API key for a token. */
export async function tokenOf(client: Client, key: string): Promise<string> {
  return (await client.json<IssuedToken>(200, { method: 'POST', path: '/v1/tokens', key })).token
}

/** Connects an agent and opens a session. */
export function connectAgent({ by, ...target }: Way, jwt: string, key: AgentKey = makeKey()): Promise<Agent> {
  return Agent.connect(by === 'quic' ? quicWire(target) : grpcWire(target), { jwt, key })
}

/** Ends sessions and waits until their connections are closed. */
export async function hangUp(...agents: readonly Agent[]): Promise<void> {
  for (const agent of agents) agent.close()
  await Promise.all(agents.map(({ ended }) => ended))
}

/** Creates a channel with the owner and one more member, both caught up. */
export async function openChannel(owner: Agent, member: Agent, name: string): Promise<Uint8Array> {
  const channel = await owner.createChannel(name)
  await member.request('resume', {})
  await owner.commit(channel, 0n, { adds: [member.id] })
  await owner.next('deliverCommit')
  assert.deepEqual((await member.next('deliverWelcome')).channelId, channel)
  await member.request('resume', { channelIds: [channel] })
  return channel
}

/** Takes the next messages of an agent and returns their indexes, which must be consecutive. */
export async function receive(agent: Agent, count: number): Promise<bigint[]> {
  const indexes: bigint[] = []
  while (indexes.length < count) {
    const { index } = await agent.next('deliverMessage')
    if (indexes.length > 0) assert.equal(index, (indexes.at(-1) ?? 0n) + 1n)
    indexes.push(index)
  }
  return indexes
}

/** Retries until it succeeds: for servers that restart and commands that give up, which no event announces. */
export async function eventually<Value>(attempt: () => Promise<Value>, tries = 1200): Promise<Value> {
  for (let left = tries; ; left--) {
    try {
      return await attempt()
    } catch (error) {
      if (left === 1) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}

/** The code of a refusal. */
export function codeOf(error: unknown): string {
  assert.ok(error instanceof Refused, String(error))
  return error.code
}

/** Sends messages until one is refused; returns the next counter and the error code. */
export async function sendUntilRefused(
  agent: Agent,
  channel: Uint8Array,
  slot: bigint,
  first: bigint,
): Promise<{ next: bigint; code: string }> {
  for (let next = first; ; next++) {
    try {
      await agent.send(channel, slot, next)
    } catch (error) {
      return { next, code: codeOf(error) }
    }
  }
}
