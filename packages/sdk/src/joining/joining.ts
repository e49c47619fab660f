/** Joining a channel with a Welcome, however it arrived. */
import { type ChannelName, StaticError, toHex } from '@static/protocol'
import type { ChannelState } from '@static/protocol/relay'
import { same } from '../platform/bytes.ts'
import type { ChannelRecord } from '../ports/index.ts'
import { wipeEpoch } from '../channel/group-state.ts'
import { sha256 } from '../channel/log/history.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { resumeOf } from '../agent/deliveries.ts'
import { alreadyIn, newChannel } from '../agent/founding.ts'
import { checkWelcomeSize } from './offer-limits.ts'
import type { AgentServices } from '../agent/services.ts'

type Joining = Pick<AgentServices, 'context' | 'channels' | 'requests' | 'keyPackages'>

/**
 * Joins a channel. The same Welcome again returns the same channel.
 *
 * @throws {StaticError} `invalid_welcome`, `channel_exists`
 */
export async function joinByWelcome(
  { context, channels, requests, keyPackages }: Joining,
  name: ChannelName,
  welcome: Uint8Array,
  expected: { readonly owner?: Uint8Array },
): Promise<AgentChannel> {
  const { engine, key, journal, invites } = context
  return await channels.names.run(name, async () => {
    const welcomeHash = sha256(welcome)
    const held = channels.named(name)
    if (held?.welcome && same(held.welcome, welcomeHash)) {
      checkOwner(held, expected.owner)
      return held
    }
    if (held?.state === 'ended') {
      throw StaticError.of(
        'channel_exists',
        `Messages from an earlier membership in ${name} are unread. Read them, or leave the channel.`,
      )
    }
    if (held) throw StaticError.of('channel_exists', alreadyIn(held))
    checkWelcomeSize(welcome)
    const { privatePart } = keyPackages.forWelcome(welcome)
    const joined = await engine.join(welcome, privatePart, key, { name, ...expected })
    const { groupId, context } = engine.facts(joined.group)
    const id = toHex(groupId)
    const offered = channels.get(id)
    // The sender of the Welcome may have used the id of another channel, to replace it here.
    if (offered && (offered.state !== 'offered' || offered.name !== name)) {
      wipeEpoch(engine, joined)
      throw StaticError.of(
        'channel_exists',
        `This agent is already a member of the channel of this Welcome, or has an offer of it as ${offered.name}.`,
      )
    }
    const isOffer = offered?.welcome !== undefined && same(offered.welcome, welcome)
    // Where the log begins for the Welcome, if the relay has said so with it.
    const at = isOffer ? offered.history.position.index : undefined
    const nowhere = { index: 0, hash: new Uint8Array(), slot: 0 }
    const begin = (): AgentChannel => channels.hold(newChannel(id, name, toHex(context.owner), 'offered', nowhere))
    let channel = offered ?? begin()
    try {
      await requests.ask(resumeOf([channel.channelId]), ({ channels: [state] }) => {
        if (channel.state !== 'offered') throw StaticError.of('channel_exists', alreadyIn(channel))
        const start = startOf(state)
        // It was removed and added again since, and is not in the group of this Welcome. Another Welcome follows.
        if (at !== undefined && at !== start.index) throw outOfDate()
        // Another channel may have been joined with the same KeyPackage meanwhile.
        keyPackages.spend(keyPackages.forWelcome(welcome).ref)
        // An offer by another Welcome may be of another group, whose owner and adder are not those of this one.
        if (offered && !isOffer) {
          channels.drop(offered, undefined)
          channel = begin()
        }
        channel.enter(joined, 'joined', start, welcomeHash)
        invites?.accepted(id)
        if (state) channel.intake.resumed(state)
      })
    } catch (error) {
      wipeEpoch(engine, joined)
      // An offer that is out of date can never be accepted.
      const isOver = isOffer && error instanceof StaticError && error.code === 'invalid_welcome'
      if (channel !== offered || (isOver && channel.state === 'offered')) channels.drop(channel, undefined)
      throw error
    }
    await journal.written()
    return channel
  })
}

function checkOwner({ owner, name }: AgentChannel, expected: Uint8Array | undefined): void {
  if (expected === undefined || toHex(expected) === owner) return
  throw StaticError.of('invalid_welcome', `Channel ${name} has another owner: ${owner}, not ${toHex(expected)}.`)
}

/** Where the log begins for this agent, as reported by the relay. An older member's first message confirms it. */
export function startOf(state: ChannelState | undefined): ChannelRecord['position'] {
  const cursor = state?.cursor
  if (!state || state.error || !cursor) {
    throw outOfDate()
  }
  return { index: Number(cursor.index), hash: Uint8Array.from(cursor.hash), slot: Number(cursor.slot) }
}

function outOfDate(): StaticError {
  const text = 'The Welcome is out of date: this agent is no longer a member of the channel, or was added to it again.'
  return StaticError.of('invalid_welcome', text)
}
