/** The channels of an agent: those it is a member of, is creating or joining, or was offered. */
import { StaticError } from '@static/protocol'
import { KeyedMutex } from '../mls/index.ts'
import type { ChannelId, ChannelRecord, RemovedRecord, StoredChannel } from '../ports/index.ts'
import { AgentChannel } from '../channel/channel.ts'
import type { AgentContext } from './context.ts'
import type { KeyPackages } from './key-packages.ts'

/** The number of removals remembered. */
const MOST_REMOVED = 1000

/** Channels in these states have taken their name. */
const NAMED: ReadonlySet<ChannelRecord['state']> = new Set(['founding', 'joining', 'joined', 'ended'])

/** The memberships of one agent. */
export class AgentChannels {
  /** Only one call at a time creates or joins a channel under a name. */
  readonly names: KeyedMutex = new KeyedMutex()
  /** The pending Leaves. Each continues automatically in the next session. */
  readonly leaves: Map<AgentChannel, Promise<void>> = new Map()
  readonly #context: AgentContext
  readonly #keyPackages: KeyPackages
  readonly #dropped: (id: ChannelId) => void
  readonly #held = new Map<ChannelId, AgentChannel>()
  /** Names of channels that this agent was removed from and has read to the end, latest last. */
  readonly #removed: Set<string>

  /** Calls `dropped` when a channel and all its data are deleted. */
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

  [Symbol.iterator](): IterableIterator<AgentChannel> {
    return this.#held.values()
  }

  get(id: ChannelId): AgentChannel | undefined {
    return this.#held.get(id)
  }

  /** The channel with a name, unless it is only offered. A channel being left counts only if there is no other. */
  named(name: string): AgentChannel | undefined {
    const held = [...this].filter((each) => each.name === name && each.state !== 'offered')
    return held.find(({ state }) => state !== 'leaving') ?? held[0]
  }

  /**
   * The same for the application, for which a name stands for one channel.
   *
   * @throws {StaticError} `channel_exists` if there are two: an earlier version could join another channel with a name
   *   in use, and the database does not record which came first
   */
  meant(name: string): AgentChannel | undefined {
    const [named, rival] = [...this].filter((each) => each.name === name && NAMED.has(each.state))
    if (!named || !rival) return named ?? this.named(name)
    const text = `This agent is in two channels named ${name}, ${named.id} and ${rival.id}. Leave one of them`
    throw StaticError.of('channel_exists', `${text}: \`client.channels()\` lists both, with their owners.`)
  }

  /** Whether this agent was removed from its last channel with a name. */
  wasRemoved(name: string): boolean {
    return this.#removed.has(name)
  }

  /** Adds a channel. */
  hold(stored: StoredChannel): AgentChannel {
    if (this.#held.has(stored.record.id)) {
      throw StaticError.of(
        'channel_exists',
        `This agent already has this channel, as ${this.#held.get(stored.record.id)?.name}.`,
      )
    }
    const channel = new AgentChannel(this.#context, stored, () => this.#ended(channel))
    this.#forgetRemoved(channel.name)
    this.#held.set(channel.id, channel)
    return channel
  }

  #ended(channel: AgentChannel): void {
    if (channel.failure?.code === 'removed') {
      const { name } = channel
      this.#removed.add(name)
      this.#context.journal.add({ type: 'putRemoved', record: { name, at: this.#context.now() } })
      const [oldest] = this.#removed
      if (this.#removed.size > MOST_REMOVED && oldest !== undefined) this.#forgetRemoved(oldest)
    }
    this.drop(channel, undefined)
  }

  #forgetRemoved(name: string): void {
    if (this.#removed.delete(name)) this.#context.journal.add({ type: 'dropRemoved', name })
  }

  /** Deletes a channel and all its data. */
  drop(channel: AgentChannel, error: StaticError | undefined): void {
    channel.drop(error)
    if (channel.pendingWelcome) this.#keyPackages.discard(channel.pendingWelcome)
    if (this.#held.get(channel.id) !== channel) return
    this.#held.delete(channel.id)
    this.#dropped(channel.id)
  }
}
