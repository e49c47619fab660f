/** The channels that an agent holds: those it is in, those it founds or joins, and those it was offered. */
import { StaticError } from '@static/protocol'
import { KeyedMutex } from '../../mls/index.ts'
import type { ChannelId, RemovedRecord, StoredChannel } from '../../ports.ts'
import { Membership } from '../channel/membership.ts'
import type { AgentContext } from './context.ts'
import type { KeyPackages } from './key-packages.ts'

/** How many removals are remembered. */
const MOST_REMOVED = 1000

/** The memberships of one agent. */
export class Memberships {
  /** One at a time founds or joins under a name. */
  readonly names: KeyedMutex = new KeyedMutex()
  readonly #context: AgentContext
  readonly #keyPackages: KeyPackages
  readonly #dropped: (id: ChannelId) => void
  readonly #held = new Map<ChannelId, Membership>()
  /** Names of channels that this agent was removed from, and whose messages are all read; the latest last. */
  readonly #removed: Set<string>

  /** `dropped` is told when a channel and everything about it is gone. */
  constructor(
    context: AgentContext,
    keyPackages: KeyPackages,
    removed: readonly RemovedRecord[],
    dropped: (id: ChannelId) => void,
  ) {
    this.#removed = new Set(removed.map(({ name }) => name))
    this.#context = context
    this.#keyPackages = keyPackages
    this.#dropped = dropped
  }

  [Symbol.iterator](): IterableIterator<Membership> {
    return this.#held.values()
  }

  get(id: ChannelId): Membership | undefined {
    return this.#held.get(id)
  }

  /** The channel under a name, unless it is only offered. */
  named(name: string): Membership | undefined {
    return [...this].find((held) => held.name === name && held.state !== 'offered')
  }

  /** Whether this agent was removed from the last channel that it had under a name. */
  wasRemoved(name: string): boolean {
    return this.#removed.has(name)
  }

  /** Holds a channel from now on. */
  hold(stored: StoredChannel): Membership {
    if (this.#held.has(stored.record.id)) {
      throw StaticError.of(
        'channel_exists',
        `This agent is already in this channel, as ${this.#held.get(stored.record.id)?.name}.`,
      )
    }
    const membership = new Membership(this.#context, stored, () => this.#ended(membership))
    this.#forgetRemoved(membership.name)
    this.#held.set(membership.id, membership)
    return membership
  }

  #ended(membership: Membership): void {
    if (membership.failure?.code === 'removed') {
      const { name } = membership
      this.#removed.add(name)
      this.#context.journal.add({ type: 'putRemoved', record: { name, at: this.#context.now() } })
      const [oldest] = this.#removed
      if (this.#removed.size > MOST_REMOVED && oldest !== undefined) this.#forgetRemoved(oldest)
    }
    this.drop(membership, undefined)
  }

  #forgetRemoved(name: string): void {
    if (this.#removed.delete(name)) this.#context.journal.add({ type: 'dropRemoved', name })
  }

  /** Lets go of a channel and of everything about it. */
  drop(membership: Membership, error: StaticError | undefined): void {
    membership.drop(error)
    if (membership.welcome) this.#keyPackages.discard(membership.welcome)
    if (this.#held.get(membership.id) !== membership) return
    this.#held.delete(membership.id)
    this.#dropped(membership.id)
  }
}
