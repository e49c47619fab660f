/** The public client: one agent, its keys and its channels. */
import { type ChannelName, fromHex, isChannelName, parseChannelName, StaticError, toHex } from '@static/protocol'
import { parseEndpoint } from '../account/endpoint.ts'
import { Invites } from '../admitting/invites.ts'
import type { IssuedInvite } from '../admitting/issued.ts'
import { encodeLink, otherRelay, parseInviteLink } from '../admitting/link.ts'
import { checkOptions, checkSeconds } from './options/call-options.ts'
import { Channel } from './channel.ts'
import { Agent, type AgentParts } from '../agent/agent.ts'
import type { AgentEvent } from '../agent/events.ts'
import { foundChannel } from '../agent/founding.ts'
import { leaveChannel } from '../agent/leaving.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { joinByWelcome, type Offer, waitingOffers } from '../joining/offers.ts'
import { ErrorEdge } from './error-edge.ts'
import { fingerprintOf, parseAgentId } from './fingerprint.ts'
import {
  type CreateOptions,
  type InviteOptions,
  type JoinOptions,
  type LinkOptions,
  requireOf,
  type ShowOptions,
  showOf,
} from './options/invite-options.ts'
import { openAgentParts, rememberLink } from './agent-parts.ts'
import type { AgentId, KnownRelay } from '../ports/index.ts'
import { removedFrom } from '../channel/removed-error.ts'
import { resolveSettings, type Settings } from './settings.ts'
import type { ClientOptions } from '../gen/client-options.ts'

/** Set once join requests are no longer answered. */
interface Death {
  error: StaticError | undefined
  readonly told: PromiseWithResolvers<StaticError>
}

const MS = 1000
const TTL_SECONDS = 3600
const JOIN_SECONDS = 60

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
  /** Joins the channel; with `show`, shows the members who runs this agent. */
  accept(options?: ShowOptions): Promise<Channel>
  /** Leaves the channel without joining it. */
  decline(): Promise<void>
}

/**
 * An agent with its keys, its channels and a session to a relay. The client reconnects whenever the session is lost.
 * With an API key it also admits agents that ask to join with its invites, for as long as it runs.
 *
 * @example
 * const client = await StaticClient.connect({ endpoint: 'quic://localhost:4433', dataDir: './agent', identity:
 * 'billing' })
 * const channel = await client.createChannel('acme/support/routing')
 */
export class StaticClient implements AsyncDisposable {
  readonly #agent: Agent
  readonly #invites: Invites
  readonly #death: Death
  /** The address of the relay; undefined if the client was started from parts. */
  #place: Pick<Settings, 'endpoint' | 'ca'> | undefined
  readonly #channels = new WeakMap<AgentChannel, Channel>()
  /** @internal Adds the documentation link to every error this client throws. */
  readonly edge: ErrorEdge

  private constructor(agent: Agent, invites: Invites, death: Death) {
    this.#agent = agent
    this.#invites = invites
    this.#death = death
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
      const client = await StaticClient.start(opened.parts, opened.settings.endpoint.serverName)
      client.#place = opened.settings
      await rememberLink(opened.settings, client)
      return client
    })
  }

  /** @internal Starts an agent from the given parts. `relay` is the relay's name. */
  static async start(parts: AgentParts, relay: string): Promise<StaticClient> {
    const death: Death = { error: undefined, told: Promise.withResolvers() }
    let invites: Invites | undefined
    const agent = new Agent(parts, (services) => {
      // This can run before the client exists.
      invites = new Invites(services, relay, (cause) => {
        const text = `The background listener has stopped: ${cause.message}`
        const error = StaticError.of('listener_died', text, { cause })
        death.error ??= new ErrorEdge(parts.apiUrl).mark(error)
        death.told.resolve(death.error)
      })
      return invites
    })
    try {
      await agent.ready
      await agent.keeping.ready
    } catch (error) {
      await agent.close()
      throw error
    }
    if (!invites) throw StaticError.of('internal_error', 'The client was started without an invite handler.')
    return new StaticClient(agent, invites, death)
  }

  /**
   * Resolves with `listener_died` if join requests are no longer answered, for instance because the disk failed. Close
   * the client and create a new one.
   */
  get died(): Promise<StaticError> {
    return this.#death.told.promise
  }

  /** @internal Throws if join requests are no longer answered. */
  checkAlive(): void {
    if (this.#death.error) throw this.#death.error
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
  async createChannel(name: string, options: CreateOptions = {}): Promise<Channel> {
    return await this.edge.wait(async () => {
      checkOptions('createChannel', options)
      const { show, require } = options
      const rules = requireOf(require)
      const channel = await foundChannel(this.#agent, parseChannelName(name))
      if (rules !== undefined) channel.proving.showing.choose({ require: rules })
      return this.channelOf(await this.#showing(channel, show))
    })
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
      const channel = await joinByWelcome(this.#agent, parsed, Uint8Array.from(welcome), expected)
      return this.channelOf(await this.#showing(channel, options.show))
    })
  }

  /**
   * Creates an invite token for a channel that this agent owns. The token is a secret: anyone who presents it first can
   * join with it. Hand it over in a way that only the invitee can read.
   *
   * @throws {StaticError} `not_found`, `not_allowed` if this agent does not own the channel, `api_key_required`
   */
  async invite(name: string, options: InviteOptions = {}): Promise<string> {
    return await this.edge.wait(async () => {
      checkOptions('invite', options)
      return await this.#issue(name, options)
    })
  }

  /**
   * Creates an invite and returns it as a link: one string that lets an agent on another machine find the relay, trust
   * its certificate and join. It is as secret as a token.
   *
   * @throws {StaticError} as `invite`; `invalid_request` if this cannot be an address of the relay
   */
  async inviteLink(name: string, options: LinkOptions = {}): Promise<string> {
    return await this.edge.wait(async () => {
      checkOptions('inviteLink', options)
      const { endpoint, ...limits } = options
      const place = this.#place
      if (!place) throw StaticError.of('internal_error', 'The client was started without the address of its relay.')
      const { serverName } = place.endpoint
      const address = endpoint === undefined ? place.endpoint : parseEndpoint(endpoint, { relayName: serverName })
      const { relay } = this
      if (!relay)
        throw StaticError.of(
          'unavailable',
          'A link contains the id of the relay, and this agent has never been connected. Try again once it has.',
        )
      const parts = { ...relay, endpoint: address, ca: place.ca }
      // Throws if the CA does not fit, before an invite exists that cannot be handed out.
      encodeLink({ ...parts, token: '' })
      return encodeLink({ ...parts, token: await this.#issue(name, limits) })
    })
  }

  /**
   * Revokes an invite, named by its token or its id. Agents that have already joined with it stay.
   *
   * @throws {StaticError} `invite_invalid` if this agent did not create the invite
   */
  async revokeInvite(tokenOrId: string): Promise<void> {
    await this.edge.wait(() => this.#invites.issuer.revoke(tokenOrId))
  }

  /**
   * The invites to a channel created by this agent, the next to expire first.
   *
   * @throws {StaticError} `not_found`
   */
  invites(name: string): readonly IssuedInvite[] {
    return this.edge.run(() => this.#invites.issuer.list(this.membershipOf(parseChannelName(name)).id))
  }

  /**
   * Joins a channel with an invite token. Resolves once the owner has answered; `timeout` is in seconds. After a
   * timeout, call it again with the same token to continue. An agent that is already a member gets the channel and does
   * not use the token. A removed agent joins again, and its unread messages of the earlier membership are dropped.
   *
   * @throws {StaticError} `join_timeout`, `invite_invalid`, `invite_expired`, `invite_used_up`, `invite_revoked`,
   *   `proof_required`, `identity_changed`, `group_full`, `invalid_welcome`, `channel_exists`
   */
  async joinWithToken(
    name: string,
    token: string,
    timeout: number = JOIN_SECONDS,
    options: ShowOptions = {},
  ): Promise<Channel> {
    this.checkAlive()
    return await this.edge.wait(async () => {
      checkSeconds('joinWithToken', timeout)
      checkOptions('joinWithToken', options)
      if (isChannelName(token) && !isChannelName(name)) throw swapped(token)
      const show = showOf(options.show)
      return this.channelOf(await this.#invites.joins.join(parseChannelName(name), token, timeout * MS, show))
    })
  }

  /**
   * Joins a channel with an invite link to this agent's relay. An agent without a relay must first connect with the
   * option `link`.
   *
   * @throws {StaticError} as `joinWithToken`; `invite_invalid` also if the link is damaged, of a newer version, or for
   * another relay
   */
  async joinWithLink(link: string, timeout: number = JOIN_SECONDS, options: ShowOptions = {}): Promise<Channel> {
    const parsed = this.edge.run(() => parseInviteLink(link))
    const { relay } = this
    if (relay && toHex(relay.relayId) !== parsed.relayId) {
      throw this.edge.mark(otherRelay(parsed, this.#place?.endpoint.url ?? toHex(relay.relayId)))
    }
    return await this.joinWithToken(parsed.channel, parsed.token, timeout, options)
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

  /** Deletes the history of all channels (`Channel.eraseHistory`). The agent keeps what comes from then on. */
  async eraseHistory(): Promise<void> {
    await this.edge.wait(() => this.#agent.keeping.eraseAll())
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

  /** Shows this agent's proof in a channel, if the application says so. */
  async #showing(channel: AgentChannel, show: string | true | undefined): Promise<AgentChannel> {
    if (show !== undefined) channel.proving.showing.choose({ show: showOf(show) })
    await this.#agent.context.journal.written()
    return channel
  }

  async #issue(name: string, options: InviteOptions): Promise<string> {
    this.checkAlive()
    const { maxUses = 1, ttl = TTL_SECONDS, admit = 'owner', require, replace = false } = options
    const limits = { maxUses, lifetimeMs: ttl * MS, admit, require: requireOf(require), replaces: replace }
    return await this.#invites.issuer.invite(this.membershipOf(parseChannelName(name)), limits)
  }

  #offerOf({ channel, name, owner, addedBy }: Offer): JoinOffer {
    const agent = this.#agent
    const { pendingWelcome: welcome } = channel
    return {
      name,
      channelId: channel.id,
      owner: fingerprintOf(owner),
      addedBy: fingerprintOf(addedBy),
      accept: (options = {}) =>
        this.edge.wait(async () => {
          checkOptions('accept', options)
          if (!welcome)
            throw StaticError.of('invalid_welcome', `The offer to join channel ${name} is no longer available.`)
          const joined = await joinByWelcome(agent, name, welcome, { owner: fromHex(owner) })
          return this.channelOf(await this.#showing(joined, options.show))
        }),
      decline: () => this.edge.wait(() => leaveChannel(agent, channel)),
    }
  }
}

function swapped(name: string): StaticError {
  return StaticError.of(
    'invalid_request',
    `The channel name and the invite token are swapped. Pass the name (${name}) first, then the token.`,
  )
}
