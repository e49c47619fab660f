/**
 * Welcomes to later memberships of channels whose earlier membership has not ended here: its removal or its Leave is still
 * to be processed, or its messages are to be read. They are held in memory until then and acknowledged only when
 * their own membership is on disk, so that the relay delivers them again in the next session. That makes it safe to
 * forget those beyond the limits, too.
 */
import { MAX_WELCOME_BYTES } from '@static/protocol'
import type { DeliverWelcome } from '@static/protocol/relay'
import type { ChannelId } from '../ports/index.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { AgentContext } from '../agent/context.ts'
import type { AgentChannels } from '../agent/channels.ts'

/** Limits of held Welcomes: per channel, and the bytes of all together. */
export const MOST_HELD = 4
export const MOST_HELD_BYTES: number = 2 * 1024 * 1024

/** What holding asks of the agent. */
interface Holding {
  readonly context: Pick<AgentContext, 'journal'>
  readonly channels: AgentChannels
}

/** The held Welcomes of one agent. */
export class HeldWelcomes {
  readonly #agent: Holding
  /** By channel, each with the latest last. */
  readonly #held = new Map<ChannelId, DeliverWelcome[]>()

  constructor(agent: Holding) {
    this.#agent = agent
  }

  /** Holds a Welcome if a membership is an earlier one, and has the relay report its end. Returns whether it does. */
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

  /** The Welcomes to a channel whose earlier membership has ended, in the order of their arrival. */
  release(id: ChannelId): readonly DeliverWelcome[] {
    const held = this.#held.get(id) ?? []
    this.#held.delete(id)
    return held
  }

  /** A session begins: the relay delivers them again. */
  clear(): void {
    this.#held.clear()
  }

  /**
   * Entries before the Welcome are processed first, including the end of the membership. If that has not arrived, a
   * Resume makes the relay report it.
   */
  async #hasten(channel: AgentChannel, index: number): Promise<void> {
    const { context, channels } = this.#agent
    await channel.idle()
    // A membership with nothing unread is deleted by this write.
    await context.journal.written()
    const isHere = channels.get(channel.id) === channel && channel.group !== undefined
    if (isHere && channel.history.position.index < index) channel.intake.resume()
  }

  get #bytes(): number {
    return [...this.#held.values()].reduce((sum, held) => sum + bytesOf(held), 0)
  }

  /** Drops the oldest of the channel with the most bytes: who fills one channel displaces no one in others. */
  #dropOne(): void {
    const [first, ...others] = this.#held.values()
    if (!first) return
    others.reduce((most, held) => (bytesOf(held) > bytesOf(most) ? held : most), first).shift()
  }
}

/** Whether a Welcome is to a later membership than this one, or this one has ended but is not read. */
function isEarlier({ state, group, history }: AgentChannel, delivered: DeliverWelcome): boolean {
  // An offer that is being declined has no group.
  const isBegun = group !== undefined || state === 'leaving'
  return state === 'ended' || (isBegun && history.position.index < indexOf(delivered))
}

function indexOf({ position }: DeliverWelcome): number {
  return Number(position?.index ?? 0n)
}

function sizeOf({ welcome }: DeliverWelcome): number {
  return welcome?.welcome.length ?? 0
}

function bytesOf(held: readonly DeliverWelcome[]): number {
  return held.reduce((sum, each) => sum + sizeOf(each), 0)
}
