/**
 * Welcomes, however they arrive. Their size is checked before anything is parsed, a Welcome for a join request is
 * opened (SPEC.md, 6.3), and Welcomes to later memberships are held.
 */
import { create } from '@bufbuild/protobuf'
import { sameBytes } from '#platform/crypto'
import {
  CHANNEL_ID_BYTES,
  type ChannelName,
  fromHex,
  HASH_BYTES,
  isChannelName,
  MAX_WELCOME_BYTES,
  StaticError,
} from '@static/protocol'
import { type ChannelState, type DeliverWelcome, DeliverWelcomeSchema } from '@static/protocol/relay'
import { welcomeTag } from '../admitting/keys.ts'
import type { AgentChannels } from '../agent/channels.ts'
import type { AgentContext } from '../agent/context.ts'
import type { KeyPackages } from '../agent/key-packages.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { wipeEpoch } from '../channel/group-state.ts'
import type { Joined } from '../mls/index.ts'
import { same } from '../platform/bytes.ts'
import type { ChannelId, ChannelRecord } from '../ports/index.ts'
import type { Join } from './join.ts'

// ---- Checked ----

const NONE = new Uint8Array()

/** A Welcome whose fields have valid sizes. */
export type CheckedWelcome = DeliverWelcome & { readonly name: ChannelName }

/**
 * Checks the size of a Welcome before anything is parsed. Returns a copy of the fields to keep: they are views of the
 * received bytes, which may be far larger.
 *
 * @throws {StaticError} `invalid_welcome`
 */
export function checkWelcome({ channelId, name, welcome, position }: DeliverWelcome): CheckedWelcome {
  const { welcome: bytes = NONE, tag = NONE } = welcome ?? {}
  const { index = 0n, hash = NONE, slot = 0n } = position ?? {}
  checkWelcomeSize(bytes)
  if (!isChannelName(name))
    throw StaticError.of('invalid_welcome', 'The channel offered by the Welcome has no valid name.')
  if (channelId.length !== CHANNEL_ID_BYTES)
    throw StaticError.of('invalid_welcome', `The id of channel ${name} has ${channelId.length} bytes, not 16.`)
  const copy = create(DeliverWelcomeSchema, {
    channelId: Uint8Array.from(channelId),
    name,
    // The relay's word for the invite is not needed: a Welcome itself names the one that it is sealed with.
    welcome: { welcome: Uint8Array.from(bytes), tag: short(tag) },
    position: { index, hash: short(hash), slot },
  })
  return Object.assign(copy, { name })
}

/** A copy, or nothing if it exceeds its maximum length: both are equally invalid. */
function short(bytes: Uint8Array): Uint8Array {
  return bytes.length > HASH_BYTES ? NONE : Uint8Array.from(bytes)
}

/**
 * Checks the size of a Welcome before it is parsed.
 *
 * @throws {StaticError} `invalid_welcome`
 */
export function checkWelcomeSize({ length }: Uint8Array): void {
  if (length <= MAX_WELCOME_BYTES) return
  throw StaticError.of('invalid_welcome', `The Welcome is ${length} bytes; the limit is ${MAX_WELCOME_BYTES}.`)
}

/** The position of a Welcome in the log. */
export function indexOf({ position }: DeliverWelcome): number {
  return Number(position?.index ?? 0n)
}

/** Where the log begins for this agent, as reported by the relay. An older member's first message confirms it. */
export function startOf(state: ChannelState | undefined): ChannelRecord['position'] {
  const cursor = state?.cursor
  if (!state || state.error || !cursor) throw outOfDate()
  return { index: Number(cursor.index), hash: Uint8Array.from(cursor.hash), slot: Number(cursor.slot) }
}

export function outOfDate(): StaticError {
  const text = 'The Welcome is out of date: this agent is no longer a member of the channel, or was added to it again.'
  return StaticError.of('invalid_welcome', text)
}

// ---- Opened ----

/** The context needed to open a Welcome. */
interface Opening {
  readonly context: Pick<AgentContext, 'engine' | 'key'>
  readonly keyPackages: KeyPackages
}

/**
 * Opens a Welcome for a request.
 *
 * @throws {StaticError} `invalid_welcome`
 */
export async function openWelcome(
  { context: { engine, key }, keyPackages }: Opening,
  { record, keys }: Pick<Join, 'record' | 'keys'>,
  welcome: Uint8Array,
  tag: Uint8Array,
): Promise<Joined> {
  const { privatePart, keyPackage } = keyPackages.forWelcome(welcome)
  const { channel, name, admit } = record
  const owner = fromHex(record.owner)
  const place = { channelId: fromHex(channel), name, owner, ...(admit === 'owner' && { signer: owner }) }
  const joined = await engine.join(welcome, privatePart, key, { ...place, invite: keys })
  const { epochAuthenticator } = engine.facts(joined.group)
  const isRight = sameBytes(welcomeTag(keys, keyPackage, welcome, epochAuthenticator), tag)
  if (same(keyPackage, record.keyPackage) && isRight) return joined
  wipeEpoch(engine, joined)
  throw StaticError.of('invalid_welcome', 'The Welcome was not created by a holder of the invite token.')
}

// ---- Held ----

/** Limits of held Welcomes: per channel, and the total bytes. */
export const MOST_HELD = 4
export const MOST_HELD_BYTES: number = 2 * 1024 * 1024

/** The context needed to hold Welcomes. */
interface Holding {
  readonly context: Pick<AgentContext, 'journal'>
  readonly channels: AgentChannels
}

/**
 * Welcomes to later memberships of channels whose earlier membership has not ended here: its removal or its Leave is
 * still to be processed, or its messages are unread. They are held in memory and acknowledged only when their own
 * membership is on disk, so the relay delivers them again in the next session. It is therefore safe to drop those
 * beyond the limits.
 */
export class HeldWelcomes {
  readonly #agent: Holding
  /** By channel, latest last. */
  readonly #held = new Map<ChannelId, DeliverWelcome[]>()

  constructor(agent: Holding) {
    this.#agent = agent
  }

  /**
   * Holds a Welcome if the given membership is an earlier one, and makes the relay report its end. Returns whether it
   * is held.
   */
  hold(channel: AgentChannel, delivered: DeliverWelcome): boolean {
    if (!isEarlier(channel, delivered) || sizeOf(delivered) > MAX_WELCOME_BYTES) return false
    const { id } = channel
    const held = this.#held.get(id) ?? []
    this.#held.set(id, [...held, delivered].slice(-MOST_HELD))
    while (this.#bytes > MOST_HELD_BYTES) this.#dropOne()
    // Without a journal, the agent has stopped.
    this.#hasten(channel, indexOf(delivered)).catch(() => {})
    return true
  }

  /** The Welcomes to a channel whose earlier membership has ended, in order of arrival. */
  release(id: ChannelId): readonly DeliverWelcome[] {
    const held = this.#held.get(id) ?? []
    this.#held.delete(id)
    return held
  }

  /** A session begins, in which the relay delivers them again. */
  clear(): void {
    this.#held.clear()
  }

  /**
   * Entries before the Welcome, including the end of the membership, are processed first. If that end has not arrived,
   * a Resume makes the relay report it.
   */
  async #hasten(channel: AgentChannel, index: number): Promise<void> {
    const { context, channels } = this.#agent
    await channel.idle()
    // This write deletes a membership with nothing unread.
    await context.journal.written()
    const isHere = channels.get(channel.id) === channel && channel.group !== undefined
    if (isHere && channel.history.position.index < index) channel.intake.resume()
  }

  get #bytes(): number {
    return [...this.#held.values()].reduce((sum, held) => sum + bytesOf(held), 0)
  }

  /**
   * Drops the oldest Welcome of the channel with the most bytes, so that filling one channel displaces none in others.
   */
  #dropOne(): void {
    const [first, ...others] = this.#held.values()
    if (!first) return
    others.reduce((most, held) => (bytesOf(held) > bytesOf(most) ? held : most), first).shift()
  }
}

/** Whether a Welcome is to a later membership than this one, or this one has ended with messages unread. */
function isEarlier({ state, group, history }: AgentChannel, delivered: DeliverWelcome): boolean {
  // An offer being declined has no group.
  const isBegun = group !== undefined || state === 'leaving'
  return state === 'ended' || (isBegun && history.position.index < indexOf(delivered))
}

function sizeOf({ welcome }: DeliverWelcome): number {
  return welcome?.welcome.length ?? 0
}

function bytesOf(held: readonly DeliverWelcome[]): number {
  return held.reduce((sum, each) => sum + sizeOf(each), 0)
}
