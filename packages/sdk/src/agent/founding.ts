/**
 * Creates a channel (SPEC.md, 5.3): an ephemeral founder creates the group and a Welcome for this agent, the relay
 * registers the channel, and this agent joins with the Welcome and removes the founder. Each step can be repeated after
 * a crash. Before the last step, nothing is sent and no one is added.
 */
import { sha256 } from '#platform/crypto'
import {
  chainStart,
  CHANNEL_ID_BYTES,
  type ChannelName,
  fromHex,
  HASH_BYTES,
  message,
  StaticError,
  toHex,
} from '@static/protocol'
import { CreateChannelRequestSchema } from '@static/protocol/relay'
import { same } from '../platform/bytes.ts'
import type { ChannelId, ChannelRecord, StoredChannel } from '../ports/index.ts'
import { NO_EPOCH } from '../channel/group-state.ts'
import { contradiction } from '../channel/log/contradiction.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { resumeOf } from './deliveries.ts'
import { deleteChannel } from './owning.ts'
import type { AgentServices } from './services.ts'

type Founding = Pick<AgentServices, 'context' | 'channels' | 'requests' | 'keyPackages' | 'hasTokens'>

/**
 * Creates a channel, continues a half-created one, or returns this agent's channel of that name. A half-created channel
 * that broke is deleted first.
 *
 * @throws {StaticError} `channel_exists`, `api_key_required`, `store_rolled_back`, or the relay's refusal
 */
export async function foundChannel(agent: Founding, name: ChannelName): Promise<AgentChannel> {
  const { channels } = agent
  const isOwn = ({ owner }: AgentChannel): boolean => owner === agent.context.agentId
  return await channels.names.run(name, async () => {
    const before = channels.named(name)
    // Deleted elsewhere: its unread messages are dropped in favor of the new channel.
    if (before && isOwn(before) && before.state === 'ended') channels.drop(before, undefined)
    const held = channels.named(name)
    if (held && !isOwn(held)) throw StaticError.of('channel_exists', alreadyIn(held))
    if (held?.state === 'joined') return held
    if (!agent.hasTokens)
      throw StaticError.of('api_key_required', `Creating channel ${name} requires an API key. ${GUEST}`)
    if (held && isBroken(held)) await discard(agent, held)
    const channel = channels.named(name) ?? (await begin(agent, name))
    if (!channel.group) await register(agent, channel)
    await channel.committer.commit(({ facts }) =>
      facts.members.some(({ founder }) => founder) ? { removeFounder: true } : undefined,
    )
    return channel
  })
}

const GUEST =
  'This agent is a guest: give the client an API key, or run `static signup`, which saves one on this machine.'

/** The message when this agent is already a member of a channel with the name. */
export function alreadyIn({ name, owner }: Pick<AgentChannel, 'name' | 'owner'>): string {
  const problem = `This agent is already a member of channel ${name}, owned by agent ${owner}.`
  return `${problem} Choose another name, or open it with \`client.channel(name)\`.`
}

/**
 * Whether a half-created channel can never be continued. If it only ended because this agent stopped, a restart
 * continues it.
 */
function isBroken({ state, standing }: AgentChannel): boolean {
  return state === 'founding' && standing.record.broken !== undefined
}

/**
 * Deletes a broken channel here and at the relay, where it occupies the name. No one was added, unless the relay says
 * otherwise.
 */
async function discard(agent: Founding, channel: AgentChannel): Promise<void> {
  const { name, channelId, history, sender } = channel
  const isUsed = await agent.requests.ask(resumeOf([channelId]), ({ channels: [state] }) => {
    const error = state && !state.error ? contradiction(state, history.position, sender.counter) : undefined
    return error?.code === 'store_rolled_back'
  })
  if (isUsed) {
    const problem = `Channel ${name} was used after this copy of the data directory was made`
    throw StaticError.of(
      'store_rolled_back',
      `${problem}. Delete it for all members with \`client.channel(name).delete()\`.`,
    )
  }
  await deleteChannel(agent, channel).catch((error: unknown) => {
    if (StaticError.from(error).code !== 'not_found') throw error
    agent.channels.drop(channel, undefined)
  })
}

/** Creates the group and its Welcome, and stores them. */
async function begin({ context, channels, keyPackages }: Founding, name: ChannelName): Promise<AgentChannel> {
  const { keyPackage } = await keyPackages.make(false)
  const channelId = context.random(CHANNEL_ID_BYTES)
  const welcome = await context.engine.found({ channelId, name, keyPackage, now: context.now() })
  const position = { index: 0, hash: chainStart(sha256, channelId), slot: 0 }
  const channel = channels.hold(newChannel(toHex(channelId), name, context.agentId, 'founding', position))
  channel.keepWelcome(welcome)
  await context.journal.written()
  return channel
}

/** Registers the channel with the relay and joins it. */
async function register(agent: Founding, channel: AgentChannel): Promise<void> {
  const { channels, requests, keyPackages } = agent
  const { engine, key, agentId } = agent.context
  const { name, channelId, pendingWelcome: welcome } = channel
  if (!welcome)
    throw StaticError.of('store_corrupt', `The Welcome of the new channel ${name} is missing in the data directory.`)
  try {
    const request = message(CreateChannelRequestSchema, { name, channelId, welcome })
    const registered = await requests.ask({ case: 'createChannel', value: request }, (answer) => answer.welcome)
    if (!same(registered, welcome)) {
      throw StaticError.of(
        'invalid_welcome',
        `The relay returned a different Welcome for channel ${name} than this agent sent.`,
      )
    }
  } catch (error) {
    // Refused permanently. In other cases the relay may have registered it, and the next call finds out.
    if (error instanceof StaticError && !error.retryable && error.code !== 'closed') channels.drop(channel, error)
    throw error
  }
  const { ref, privatePart } = keyPackages.forWelcome(welcome)
  const expected = { channelId, name, owner: fromHex(agentId), founding: true }
  const joined = await engine.join(welcome, privatePart, key, expected)
  const { position } = channel.history
  await requests.ask(resumeOf([channelId]), ({ channels: [state] }) => {
    if (!state || state.error) throw StaticError.of('mls_error', `The relay does not know the new channel ${name}.`)
    channel.enter(joined, 'founding', position, sha256(welcome))
    keyPackages.spend(ref)
    channel.intake.answered(state)
  })
}

/** The initial state of a channel. */
export function newChannel(
  id: ChannelId,
  name: string,
  owner: string,
  state: ChannelRecord['state'],
  position: ChannelRecord['position'],
  offer: Partial<Pick<ChannelRecord, 'leafKeys' | 'addedBy' | 'offeredAt'>> = {},
): StoredChannel {
  return {
    record: {
      id,
      name,
      owner,
      state,
      position,
      epoch: { ...NO_EPOCH, index: position.index },
      counter: 0,
      ownHash: new Uint8Array(HASH_BYTES),
      rekeyDue: false,
      rekeyedAt: 0,
      rekeyDeferredAt: 0,
      sentSinceRekey: 0,
      fork: undefined,
      broken: undefined,
      leafKeys: [],
      addedBy: undefined,
      givenUpTo: 0,
      servedUpTo: 0,
      offeredAt: 0,
      confirmed: false,
      takenUnconfirmed: false,
      enteredUnder: undefined,
      removalSlot: 0,
      ...offer,
    },
    welcome: undefined,
    epoch: undefined,
    pending: undefined,
    senders: [],
    leavers: [],
    chain: [],
    ownReceipt: undefined,
    stays: [],
    ownProof: undefined,
    memberProofs: [],
    outbox: [],
    answered: [],
    inbox: { messages: 0, bytes: 0, first: 0 },
    poison: { messages: 0, bytes: 0 },
    requests: { messages: 0, bytes: 0, first: 0 },
    answers: { messages: 0, bytes: 0 },
    asks: [],
    answerers: [],
    files: [],
    uploads: [],
    approvals: [],
    approvalRequests: [],
    approvalEvents: [],
    inviteList: undefined,
    uses: [],
    claims: [],
  }
}
