/** An agent as the application uses it. */
import { type ChannelName, fromHex, parseChannelName, StaticError } from '@static/protocol'
import { Channel } from './channel.ts'
import { Agent, type AgentParts } from './core/agent/agent.ts'
import type { AgentEvent } from './core/agent/events.ts'
import { foundChannel } from './core/agent/founding.ts'
import { joinByWelcome } from './core/agent/joining.ts'
import { leaveChannel } from './core/agent/leaving.ts'
import type { Membership } from './core/channel/membership.ts'
import { type Offer, waitingOffers } from './core/agent/offers.ts'
import type { AgentServices } from './core/agent/services.ts'
import { ErrorEdge } from './error-edge.ts'
import { fingerprintOf, parseAgentId } from './fingerprint.ts'
import type { InviteHandler } from './invite/handler.ts'
import { openParts } from './parts.ts'
import type { AgentId } from './ports.ts'
import { type ClientOptions, resolveSettings } from './settings.ts'

/** A channel that somebody has added this agent to. Nothing of it is read or sent before `accept`. */
export interface JoinOffer {
  readonly name: string
  readonly channelId: string
  /** Fingerprints, from inside the Welcome: compare them before you accept. */
  readonly owner: string
  readonly addedBy: string
  accept(): Promise<Channel>
  /** Leaves the channel without joining it. */
  decline(): Promise<void>
}

/**
 * An agent with its keys, its channels and a session to a relay that is dialled again whenever it is lost.
 *
 * @example
 * const client = await StaticClient.connect({ endpoint: 'quic://localhost:4433', dataDir: './agent', identity: 'billing' })
 * const channel = await client.createChannel('acme/support/routing')
 */
export class StaticClient implements AsyncDisposable {
  readonly #agent: Agent
  readonly #channels = new WeakMap<Membership, Channel>()
  /** @internal Where errors of this agent leave. */
  readonly edge: ErrorEdge

  private constructor(agent: Agent) {
    this.#agent = agent
    this.edge = new ErrorEdge(agent.apiUrl)
  }

  /**
   * Opens the agent's database, or makes it, and connects. With an API key the agent acts for its account, without one
   * it is a guest, which can talk in channels but not create them.
   *
   * @throws {StaticError} `connection_error` when the relay cannot be reached, AuthErrors when it or the API refuses,
   *   `invalid_request` for wrong options, `store_*` when the database cannot be opened
   */
  static async connect(options: ClientOptions = {}): Promise<StaticClient> {
    const settings = resolveSettings(options)
    return await new ErrorEdge(settings.apiUrl).wait(async () => StaticClient.start(await openParts(settings)))
  }

  /** @internal Starts an agent of given parts, with what deals with invites. */
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

  /** @internal The API that it uses. */
  get apiUrl(): string | undefined {
    return this.#agent.apiUrl
  }

  /** SHA-256 of this agent's key, 64 hexadecimal digits: what others add it by. */
  get agentId(): AgentId {
    return this.#agent.agentId
  }

  /** The agent id for people, to read aloud or compare. */
  fingerprint(): string {
    return fingerprintOf(this.#agent.agentId)
  }

  /**
   * Creates a channel and owns it. The own channel of that name, also one whose creation was interrupted, is returned.
   *
   * @throws {StaticError} `channel_error` for a bad name, `channel_exists`, `api_key_required`
   */
  async createChannel(name: string): Promise<Channel> {
    return await this.edge.wait(async () => this.channelOf(await foundChannel(this.#agent, parseChannelName(name))))
  }

  /**
   * Opens a channel that this agent is in, also after a restart.
   *
   * @throws {StaticError} `channel_error` for a bad name, `not_found`
   */
  channel(name: string): Channel {
    return this.edge.run(() => this.channelOf(this.membershipOf(parseChannelName(name))))
  }

  /** @internal The membership under a name. */
  membershipOf(name: ChannelName): Membership {
    const held = this.#agent.memberships.named(name)
    if (!held || held.state === 'founding' || held.state === 'joining') {
      throw StaticError.of('not_found', `This agent is in no channel ${name}.`)
    }
    return held
  }

  /** The channels that this agent is in. */
  channels(): readonly Channel[] {
    return [...this.#agent.memberships]
      .filter(({ state }) => state === 'joined' || state === 'leaving' || state === 'ended')
      .map((membership) => this.channelOf(membership))
  }

  /** Makes a KeyPackage, for one use within 84 days, by which others can add this agent. */
  async generateKeyPackage(): Promise<Uint8Array> {
    const { keyPackage } = await this.edge.wait(() => this.#agent.keyPackages.make(false))
    return keyPackage
  }

  /**
   * Joins a channel by a Welcome that was handed over. Without `owner`, the owner's fingerprint, the bytes must have
   * come by a way that nobody else can write to: whoever made the Welcome decides who is in the channel.
   *
   * @throws {StaticError} `invalid_welcome`, `channel_exists`, `channel_error` for a bad name
   */
  async joinChannel(name: string, welcome: Uint8Array, options: { readonly owner?: string } = {}): Promise<Channel> {
    return await this.edge.wait(async () => {
      const parsed = parseChannelName(name)
      const expected = options.owner === undefined ? {} : { owner: fromHex(parseAgentId(options.owner)) }
      return this.channelOf(await joinByWelcome(this.#agent, parsed, Uint8Array.from(welcome), expected))
    })
  }

  /**
   * Channels that others have added this agent to, those that wait first, then as they come.
   *
   * @example
   * for await (const offer of client.joins()) if (offer.owner === known) await offer.accept()
   */
  async *joins(): AsyncGenerator<JoinOffer, void, undefined> {
    // Listens before it looks, so that none falls between.
    const coming = this.#agent.offers.listen()
    try {
      const waiting = await waitingOffers(this.#agent)
      for (const offer of waiting) yield this.#offerOf(offer)
      const given = new Set(waiting.map(({ membership }) => membership))
      for await (const offer of coming) if (!given.has(offer.membership)) yield this.#offerOf(offer)
    } catch (error) {
      throw this.edge.mark(error)
    } finally {
      await coming.return?.()
    }
  }

  /**
   * What happens beside the messages, from now on: connections, members, changed keys, gaps, forks. Channels that have
   * failed already, for one when the agent started, come first.
   */
  events(): AsyncIterableIterator<AgentEvent> {
    const failed: AgentEvent[] = []
    for (const { name, failure } of this.#agent.memberships) {
      if (failure) failed.push({ type: 'channel_failed', channel: name, error: this.edge.mark(failure) })
    }
    return this.#agent.events.listen(failed)
  }

  /** Ends the agent in order. What was not sent goes out at the next start; what waits gets `closed`. */
  async close(): Promise<void> {
    await this.edge.wait(() => this.#agent.close())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** @internal The channel of a membership, always the same one. */
  channelOf(membership: Membership): Channel {
    const known = this.#channels.get(membership)
    if (known) return known
    const channel = new Channel(this.#agent, membership)
    this.#channels.set(membership, channel)
    return channel
  }

  #offerOf({ membership, name, owner, addedBy }: Offer): JoinOffer {
    const agent = this.#agent
    const { welcome } = membership
    return {
      name,
      channelId: membership.id,
      owner: fingerprintOf(owner),
      addedBy: fingerprintOf(addedBy),
      accept: () =>
        this.edge.wait(async () => {
          if (!welcome) throw StaticError.of('invalid_welcome', 'The offer is gone.')
          return this.channelOf(await joinByWelcome(agent, name, welcome, { owner: fromHex(owner) }))
        }),
      decline: () => this.edge.wait(() => leaveChannel(agent, membership)),
    }
  }
}
