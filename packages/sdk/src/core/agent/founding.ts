/**
 * A new channel (SPEC.md, 5.3): an ephemeral founder makes the group and a Welcome for this agent, the relay registers
 * the channel, this agent joins by the Welcome and removes the founder. Each step can be repeated after a crash; until
 * the last one nothing is sent and nobody is added.
 */
import {
  chainStart,
  CHANNEL_ID_BYTES,
  type ChannelName,
  fromHex,
  HASH_BYTES,
  StaticError,
  toHex,
} from '@static/protocol'
import type { ChannelId, ChannelRecord, StoredChannel } from '../../ports.ts'
import type { Agent } from './agent.ts'
import { same } from '../bytes.ts'
import { sha256 } from '../channel/history.ts'
import type { Membership } from '../channel/membership.ts'

/**
 * Founds a channel, goes on with one that is half founded, or returns the own one of that name.
 *
 * @throws {StaticError} `channel_exists`, `api_key_required`, and what the relay refuses with
 */
export async function foundChannel(agent: Agent, name: ChannelName): Promise<Membership> {
  return await agent.names.run(name, async () => {
    const before = agent.held(name)
    // Deleted elsewhere: what was unread of it gives way to the new one.
    if (before?.isOwn && before.state === 'ended') agent.drop(before, undefined)
    const held = agent.held(name)
    if (held && !held.isOwn) throw StaticError.of('channel_exists')
    if (held?.state === 'joined') return held
    if (agent.isGuest) throw StaticError.of('api_key_required')
    const membership = held ?? (await begin(agent, name))
    if (!membership.group) await register(agent, membership)
    await membership.commit(({ facts }) =>
      facts.members.some(({ founder }) => founder) ? { removeFounder: true } : undefined,
    )
    return membership
  })
}

/** The group and its Welcome, on disk. */
async function begin(agent: Agent, name: ChannelName): Promise<Membership> {
  const { keyPackage } = await agent.keyPackages.make(false)
  const channelId = agent.random(CHANNEL_ID_BYTES)
  const welcome = await agent.engine.found({ channelId, name, keyPackage, now: agent.now() })
  const position = { index: 0, hash: chainStart(sha256, channelId), slot: 0 }
  const membership = agent.hold(newChannel(toHex(channelId), name, agent.agentId, 'founding', position))
  membership.wait(welcome)
  await agent.journal.written()
  return membership
}

/** Known to the relay, and joined. */
async function register(agent: Agent, membership: Membership): Promise<void> {
  const { name, channelId, welcome } = membership
  if (!welcome) throw StaticError.of('store_corrupt', 'The Welcome of a new channel is gone.')
  try {
    const request = { $typeName: 'static.relay.v1.CreateChannelRequest', name, channelId, welcome } as const
    const registered = await agent.ask({ case: 'createChannel', value: request }, (answer) => answer.welcome)
    if (!same(registered, welcome)) {
      throw StaticError.of('invalid_welcome', 'The relay has returned another Welcome than it was given.')
    }
  } catch (error) {
    // Refused for good. Otherwise the relay may have it, and the next call finds out.
    if (error instanceof StaticError && !error.retryable && error.code !== 'closed') agent.drop(membership, error)
    throw error
  }
  const { ref, privatePart } = agent.keyPackages.forWelcome(welcome)
  const expected = { channelId, name, owner: fromHex(agent.agentId), founding: true }
  const joined = await agent.engine.join(welcome, privatePart, agent.key, expected)
  const { position } = membership.history
  await agent.ask(resumeOf(channelId), ({ channels: [state] }) => {
    if (!state || state.error) throw StaticError.of('mls_error', 'The relay does not know the new channel.')
    membership.enter(joined, 'founding', position, sha256(welcome))
    agent.keyPackages.spend(ref)
    membership.resumed(state)
  })
}

/** The request that starts a channel's deliveries. */
export function resumeOf(channelId: Uint8Array): Parameters<Agent['ask']>[0] & { readonly case: 'resume' } {
  return {
    case: 'resume',
    value: { $typeName: 'static.relay.v1.ResumeRequest', channelIds: [channelId], after: new Uint8Array() },
  }
}

/** A channel in which nothing has happened yet. */
export function newChannel(
  id: ChannelId,
  name: string,
  owner: string,
  state: ChannelRecord['state'],
  position: ChannelRecord['position'],
): StoredChannel {
  return {
    record: {
      id,
      name,
      owner,
      state,
      position,
      counter: 0,
      ownHash: new Uint8Array(HASH_BYTES),
      rekeyDue: false,
      rekeyedAt: 0,
      sentSinceRekey: 0,
      fork: undefined,
      broken: undefined,
    },
    welcome: undefined,
    epoch: undefined,
    pending: undefined,
    senders: [],
    leavers: [],
    outbox: [],
    answered: [],
    inboxBytes: 0,
  }
}
