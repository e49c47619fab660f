/** The public client: one agent, its keys and its channels. */
import { type ChannelName, fromHex, parseChannelName, StaticError } from '@static/protocol'
import { checkOptions } from './call-options.ts'
import { Channel } from './channel.ts'
import { Agent, type AgentParts } from '../agent/agent.ts'
import type { AgentEvent } from '../agent/events.ts'
import { foundChannel } from '../agent/founding.ts'
import type { InviteHandler } from '../agent/invite-handler.ts'
import { leaveChannel } from '../agent/leaving.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { joinByWelcome, type Offer, waitingOffers } from '../joining/offers.ts'
import type { AgentServices } from '../agent/services.ts'
import { ErrorEdge } from './error-edge.ts'
import { fingerprintOf, parseAgentId } from './fingerprint.ts'
import type { JoinOptions } from './invite-options.ts'
import { openAgentParts, rememberLink } from './agent-parts.ts'
import type { AgentId, KnownRelay } from '../ports/index.ts'
import { removedFrom } from '../channel/removed-error.ts'
import { resolveSettings, type Settings } from './settings.ts'
import type { ClientOptions } from '../gen/client-options.ts'

/** A channel that another agent has added this agent to. Until you call `accept`, nothing in it is read or sent. */
export interface JoinOffer {
  /** The channel's name, `org/namespace/service`. */
  readonly name: string
  /** 32 hexadecimal digits. */
  readonly channelId: string
  /** Fingerprints taken from the Welcome itself. Compare them with ones you trust before you accept. */
  readonly owner: string
  /** Fingerprint of the agent that added this one. */
  readonly addedBy: string
  /** Joins the channel. */
  accept(): Promise<Channel>
  /** Leaves the channel without joining it. */
  decline(): Promise<void>
}

/**
 * An agent with its keys, its channels and a session to a relay. The client reconnects whenever the session is lost.
 *
 * @example
 * const client = await StaticClient.connect({ endpoint: 'quic://localhost:4433', dataDir: './agent', identity:
 * 'billing' })
 * const channel = await client.createChannel('acme/support/routing')
 */
export class StaticClient implements AsyncDisposable {
  readonly #agent: Agent
  readonly #channels = new WeakMap<AgentChannel, Channel>()
  /** @internal Adds the documentation link to every error this client throws. */
  readonly edge: ErrorEdge

  private constructor(agent: Agent) {
    this.#agent = agent
    this.edge = new ErrorEdge(agent.apiUrl)
  }

  /**
   * Opens the agent's database, creating it on first use, and connects to the relay. With an API key the agent acts for
   * its account. Without one it is a guest: it can use channels but not create them.
   *
   * @throws {StaticError} `connection_error` if the relay cannot be reached; an AuthError if the relay or the API
   *   refuses the agent; `invalid_request` for invalid options; `store_*` if the database cannot be opened
   */
  static async connect(options: ClientOptions = {}): Promise<StaticClient> {
    return await StaticClient.open(resolveSettings(options))
  }

  /** @internal Like `connect`, with settings that are already resolved. */
  static async open(settings: Settings): Promise<StaticClient> {
    return await new ErrorEdge(settings.apiUrl).wait(async () => {
      const opened = await openAgentParts(settings)
      const client = await StaticClient.start(opened.parts)
      await rememberLink(opened.settings, client)
      return client
    })
  }

  /** @internal Starts an agent from the given parts. `invites` creates the handler for invites. */
  static async start(parts: AgentParts, invites?: (agent: AgentServices) => InviteHandler): Promise<StaticClient> {
    const agent = new Agent(parts, invites)
    try {
      await agent.ready
    } catch (error) {
      await agent.close()
      throw error
    }
    return new StaticClient(agent)
  }

  /** @internal The relay of the current or last session, if there was one. */
  get relay(): KnownRelay | undefined {
    return this.#agent.relay
  }

  /** @internal URL of the API this client uses. */
  get apiUrl(): string | undefined {
    return this.#agent.apiUrl
  }

  /** The agent id: SHA-256 of this agent's public key, 64 hexadecimal digits. Other agents use it to add this one. */
  get agentId(): AgentId {
    return this.#agent.agentId
  }

  /** The agent id in groups of four digits, for people to read aloud or compare. */
  fingerprint(): string {
    return fingerprintOf(this.#agent.agentId)
  }

  /**
   * Creates a channel owned by this agent. If this agent already owns a channel of that name, even one whose creation
   * was interrupted, returns that channel.
   *
   * @throws {StaticError} `channel_error` for an invalid name, `channel_exists` if another agent has the name,
   *   `api_key_required` for a guest, `store_rolled_back` if creation was interrupted in an old copy of the data directory
   */
  async createChannel(name: string): Promise<Channel> {
    return await this.edge.wait(async () => this.channelOf(await foundChannel(this.#agent, parseChannelName(name))))
  }

  /**
   * Opens a channel this agent is a member of, even after a restart.
   *
   * @throws {StaticError} `channel_error` for an invalid name, `not_found` if this agent is not a member, `removed` if
   * it
   *   was, `channel_exists` if its database has two channels of that name
   */
  channel(name: string): Channel {
    return this.edge.run(() => this.channelOf(this.membershipOf(parseChannelName(name))))
  }

  /** @internal The membership in the channel of this name. */
  membershipOf(name: ChannelName): AgentChannel {
    const held = this.#agent.channels.meant(name)
    // A channel that broke while being created can be deleted.
    const isFounding = held?.state === 'founding' && !held.failure
    if (!held || isFounding || held.state === 'joining') {
      if (this.#agent.channels.wasRemoved(name)) throw removedFrom(name)
      throw StaticError.of(
        'not_found',
        `This agent is not a member of channel ${name}. Create it, or join it with an invite.`,
      )
    }
    return held
  }

  /** All channels this agent is a member of. */
  channels(): readonly Channel[] {
    return [...this.#agent.channels]
      .filter(({ state }) => state === 'joined' || state === 'leaving' || state === 'ended')
      .map((channel) => this.channelOf(channel))
  }

  /** Creates a KeyPackage that others can use to add this agent. It can be used once and expires after 84 days. */
  async generateKeyPackage(): Promise<Uint8Array> {
    const { keyPackage } = await this.edge.wait(() => this.#agent.keyPackages.make(false))
    return keyPackage
  }

  /**
   * Joins a channel with a Welcome that you received yourself. The creator of a Welcome decides who is in the channel,
   * so pass `owner`, the owner's fingerprint, unless the Welcome came over a channel that no one else can write to.
   *
   * @throws {StaticError} `invalid_welcome`, `channel_exists`, `channel_error` for an invalid name
   */
  async joinChannel(name: string, welcome: Uint8Array, options: JoinOptions = {}): Promise<Channel> {
    return await this.edge.wait(async () => {
      checkOptions('joinChannel', options)
      const parsed = parseChannelName(name)
      const expected = options.owner === undefined ? {} : { owner: fromHex(parseAgentId(options.owner)) }
      return this.channelOf(await joinByWelcome(this.#agent, parsed, Uint8Array.from(welcome), expected))
    })
  }

  /**
   * Channels that others have added this agent to: first the pending ones, then new ones as they arrive.
   *
   * @example
   * for await (const offer of client.joins()) if (offer.owner === known) await offer.accept()
   */
  async *joins(): AsyncGenerator<JoinOffer, void, undefined> {
    // Subscribe before reading the pending offers, so that none is missed in between.
    const coming = this.#agent.offers.listen()
    try {
      const waiting = await waitingOffers(this.#agent)
      for (const offer of waiting) yield this.#offerOf(offer)
      const given = new Set(waiting.map(({ channel }) => channel))
      for await (const offer of coming) if (!given.has(offer.channel)) yield this.#offerOf(offer)
    } catch (error) {
      throw this.edge.mark(error)
    } finally {
      await coming.return?.()
    }
  }

  /**
   * Events other than messages, from now on: connections, members, changed keys, gaps and forks. First reports channels
   * that have already failed, for example while the agent started.
   */
  events(): AsyncIterableIterator<AgentEvent> {
    const failed: AgentEvent[] = []
    for (const { name, failure } of this.#agent.channels) {
      if (failure) failed.push({ type: 'channel_failed', channel: name, error: this.edge.mark(failure) })
    }
    return this.#agent.events.read(failed)
  }

  /** Shuts the agent down. Unsent messages are sent at the next start; pending calls fail with `closed`. */
  async close(): Promise<void> {
    await this.edge.wait(() => this.#agent.close())
  }

  /** Calls `close`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** @internal The `Channel` of a membership. Returns the same object every time. */
  channelOf(inner: AgentChannel): Channel {
    const known = this.#channels.get(inner)
    if (known) return known
    const channel = new Channel(this.#agent, inner)
    this.#channels.set(inner, channel)
    return channel
  }

  #offerOf({ channel, name, owner, addedBy }: Offer): JoinOffer {
    const agent = this.#agent
    const { pendingWelcome: welcome } = channel
    return {
      name,
      channelId: channel.id,
      owner: fingerprintOf(owner),
      addedBy: fingerprintOf(addedBy),
      accept: () =>
        this.edge.wait(async () => {
          if (!welcome)
            throw StaticError.of('invalid_welcome', `The offer to join channel ${name} is no longer available.`)
          return this.channelOf(await joinByWelcome(agent, name, welcome, { owner: fromHex(owner) }))
        }),
      decline: () => this.edge.wait(() => leaveChannel(agent, channel)),
    }
  }
}
