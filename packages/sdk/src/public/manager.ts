/** Channels by name, with invites: the simple way to use an agent. */
import { withinTime } from '@static/node/within-time'
import { isChannelName, parseChannelName, StaticError, toHex } from '@static/protocol'
import { checkOptions } from './call-options.ts'
import type { Channel } from './channel.ts'
import type { SendOptions } from './channel-options.ts'
import { StaticClient } from './client.ts'
import type { AgentParts } from '../agent/agent.ts'
import type { Envelope } from './envelope.ts'
import type { SentMessage } from '../channel/sending/outbox.ts'
import { parseEndpoint } from '../account/endpoint.ts'
import { ErrorEdge } from './error-edge.ts'
import { Invites } from '../admitting/invites.ts'
import type { IssuedInvite } from '../admitting/issued.ts'
import type { InviteOptions, LinkOptions } from './invite-options.ts'
import { encodeLink, otherRelay, parseInviteLink } from '../admitting/link.ts'
import { openAgentParts, rememberLink } from './agent-parts.ts'
import { resolveSettings, type Settings } from './settings.ts'
import type { ClientOptions } from '../gen/client-options.ts'

const LISTENER_STOPPED = 'The background listener of the channel manager has stopped'
const MS = 1000
const TTL_SECONDS = 3600
const JOIN_SECONDS = 60
const RECEIVE_SECONDS = 5

const MOST_AT_ONCE = 100

/** A pending read of the next payload. */
type PendingRead = Promise<IteratorResult<Envelope, undefined>>

/** Set once join requests are no longer answered. */
interface Death {
  error: StaticError | undefined
  readonly told: PromiseWithResolvers<StaticError>
}

/** The state of `receive` for one channel. */
interface ChannelReader {
  /** The messages that the last call returned. The next call settles them. */
  given: Envelope[]
  readonly waiting: PendingRead[]
}

/**
 * Creates, invites, joins, sends and receives by channel name. A manager with an API key also admits agents that ask to
 * join with its invites, for as long as it runs.
 *
 * @example
 * const manager = await StaticChannelManager.connect({ endpoint, dataDir, identity, apiKey, apiUrl })
 * await manager.create('acme/support/routing')
 * const token = await manager.invite('acme/support/routing')
 */
export class StaticChannelManager implements AsyncDisposable {
  /** The underlying client, for everything else. */
  readonly client: StaticClient
  /** Resolves with `listener_died` if join requests are no longer answered. Close the manager and create a new one. */
  readonly died: Promise<StaticError>
  readonly #invites: Invites
  readonly #readers = new Map<Channel, ChannelReader>()
  /** The address of the relay; undefined if the manager was started from parts. */
  #place: Pick<Settings, 'endpoint' | 'ca'> | undefined
  readonly #death: Death

  private constructor(client: StaticClient, invites: Invites, death: Death) {
    this.client = client
    this.#invites = invites
    this.#death = death
    this.died = death.told.promise
  }

  /**
   * Connects like `StaticClient.connect` and starts to answer join requests.
   *
   * @throws {StaticError} see `StaticClient.connect`
   */
  static async connect(options: ClientOptions = {}): Promise<StaticChannelManager> {
    return await StaticChannelManager.open(resolveSettings(options))
  }

  /** @internal Like `connect`, with settings that are already resolved. */
  static async open(wanted: Settings): Promise<StaticChannelManager> {
    return await new ErrorEdge(wanted.apiUrl).wait(async () => {
      const { parts, settings } = await openAgentParts(wanted)
      const manager = await StaticChannelManager.start(parts, settings.endpoint.serverName)
      manager.#place = settings
      await rememberLink(settings, manager.client)
      return manager
    })
  }

  /** @internal Starts a manager from the given parts. `relay` is the relay's name. */
  static async start(parts: AgentParts, relay: string): Promise<StaticChannelManager> {
    const death: Death = { error: undefined, told: Promise.withResolvers() }
    let invites: Invites | undefined
    const client = await StaticClient.start(parts, (agent) => {
      // This can run before the manager exists.
      invites = new Invites(agent, relay, (cause) => {
        const error = StaticError.of('listener_died', `${LISTENER_STOPPED}: ${cause.message}`, { cause })
        death.error ??= new ErrorEdge(parts.apiUrl).mark(error)
        death.told.resolve(death.error)
      })
      return invites
    })
    if (!invites) throw StaticError.of('internal_error', 'The client was started without an invite handler.')
    return new StaticChannelManager(client, invites, death)
  }

  /** Creates a channel, or opens it if this agent already owns it. See `StaticClient.createChannel`. */
  async create(name: string): Promise<Channel> {
    return await this.client.createChannel(name)
  }

  /**
   * Creates an invite token for a channel that this agent owns. The token is a secret: anyone who presents it first can
   * join with it. Hand it over in a way that only the invitee can read.
   *
   * @throws {StaticError} `not_found`, `not_allowed` if this agent does not own the channel, `api_key_required`
   */
  async invite(name: string, options: InviteOptions = {}): Promise<string> {
    return await this.client.edge.wait(async () => {
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
    return await this.client.edge.wait(async () => {
      checkOptions('inviteLink', options)
      const { endpoint, ...limits } = options
      const place = this.#place
      if (!place) throw StaticError.of('internal_error', 'The manager was started without the address of its relay.')
      const { serverName } = place.endpoint
      const address = endpoint === undefined ? place.endpoint : parseEndpoint(endpoint, { relayName: serverName })
      const { relay } = this.client
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
    await this.client.edge.wait(() => this.#invites.issuer.revoke(tokenOrId))
  }

  /**
   * The invites to a channel created by this agent, the next to expire first.
   *
   * @throws {StaticError} `not_found`
   */
  invites(name: string): readonly IssuedInvite[] {
    return this.client.edge.run(() => this.#invites.issuer.list(this.client.membershipOf(parseChannelName(name)).id))
  }

  /**
   * Joins a channel with an invite token. Resolves once the owner has answered; `timeout` is in seconds. After a
   * timeout, call it again with the same token to continue. An agent that is already a member gets the channel and does
   * not use the token. A removed agent joins again, and its unread messages of the earlier membership are dropped.
   *
   * @throws {StaticError} `join_timeout`, `invite_invalid`, `invite_expired`, `invite_used_up`, `invite_revoked`,
   *   `identity_changed`, `group_full`, `invalid_welcome`, `channel_exists`
   */
  async joinWithToken(name: string, token: string, timeout: number = JOIN_SECONDS): Promise<Channel> {
    this.#checkAlive()
    return await this.client.edge.wait(async () => {
      if (isChannelName(token) && !isChannelName(name)) throw swapped(token)
      return this.client.channelOf(await this.#invites.joins.join(parseChannelName(name), token, timeout * MS))
    })
  }

  /**
   * Joins a channel with an invite link to this agent's relay. An agent without a relay must first connect with the
   * option `link`.
   *
   * @throws {StaticError} as `joinWithToken`; `invite_invalid` also if the link is damaged, of a newer version, or for
   * another relay
   */
  async joinWithLink(link: string, timeout: number = JOIN_SECONDS): Promise<Channel> {
    const parsed = this.client.edge.run(() => parseInviteLink(link))
    const { relay } = this.client
    if (relay && toHex(relay.relayId) !== parsed.relayId) {
      throw this.client.edge.mark(otherRelay(parsed, this.#place?.endpoint.url ?? toHex(relay.relayId)))
    }
    return await this.joinWithToken(parsed.channel, parsed.token, timeout)
  }

  /** Sends a string or bytes. See `Channel.send`. */
  async send(name: string, payload: Uint8Array | string, options: SendOptions = {}): Promise<SentMessage> {
    return await this.client.channel(name).send(payload, options)
  }

  /**
   * The next payload, a `Uint8Array`, which `TextDecoder` turns into text; null if none arrives within `timeout`
   * seconds. The next call for this channel or `close` settles it.
   */
  async receive(name: string, timeout: number = RECEIVE_SECONDS): Promise<Uint8Array | null> {
    const [envelope] = await this.client.edge.wait(() => this.#receive(name, timeout * MS, 1))
    return envelope?.payload ?? null
  }

  /**
   * All available payloads, at most 100. Waits up to `timeout` seconds for the first one. The next call or `close`
   * settles them.
   */
  async receiveEnvelopes(name: string, timeout: number = RECEIVE_SECONDS): Promise<readonly Envelope[]> {
    return await this.client.edge.wait(() => this.#receive(name, timeout * MS, MOST_AT_ONCE))
  }

  /** All channels this agent is a member of. */
  channels(): readonly Channel[] {
    return this.client.channels()
  }

  /** Settles all received payloads and shuts the agent down. See `StaticClient.close`. */
  async close(): Promise<void> {
    for (const { given } of this.#readers.values()) for (const envelope of given) envelope.settle()
    await this.client.close()
  }

  /** Calls `close`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #issue(name: string, { maxUses = 1, ttl = TTL_SECONDS, admit = 'owner' }: InviteOptions): Promise<string> {
    this.#checkAlive()
    const limits = { maxUses, lifetimeMs: ttl * MS, admit }
    return await this.#invites.issuer.invite(this.client.membershipOf(parseChannelName(name)), limits)
  }

  async #receive(name: string, timeoutMs: number, most: number): Promise<readonly Envelope[]> {
    this.#checkAlive()
    const channel = this.client.channel(name)
    const reader = this.#readers.get(channel) ?? { given: [], waiting: [] }
    this.#readers.set(channel, reader)
    const settled = reader.given
    reader.given = []
    for (const envelope of settled) envelope.settle()
    // After a timeout, one read stays pending.
    const waiting = reader.waiting.shift() ?? waitOn(channel)
    const first = await withinTime(waiting, timeoutMs)
    if (!first) {
      reader.waiting.push(waiting)
      return []
    }
    const envelopes = [valueOf(first)]
    while (envelopes.length < most && channel.hasNext) {
      const next = await waitOn(channel).catch(() => undefined)
      // The next call gets the error.
      if (!next || next.done === true) break
      envelopes.push(next.value)
    }
    for (const envelope of envelopes) envelope.markGiven()
    reader.given.push(...envelopes)
    return envelopes
  }

  #checkAlive(): void {
    if (this.#death.error) throw this.#death.error
  }
}

function waitOn(channel: Channel): PendingRead {
  const next = channel.readAhead().next()
  // The next call to `receive` gets the error. Without one, it must not count as an unhandled rejection.
  next.catch(() => {})
  return next
}

function valueOf(result: IteratorResult<Envelope, undefined>): Envelope {
  if (result.done) throw StaticError.of('closed')
  return result.value
}

function swapped(name: string): StaticError {
  return StaticError.of(
    'invalid_request',
    `The channel name and the invite token are swapped. Pass the name (${name}) first, then the token.`,
  )
}
