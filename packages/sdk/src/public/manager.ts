/** Channels by name, with calls that return what has arrived: for programs that poll. */
import { withinTime } from '@static/node/within-time'
import { StaticError } from '@static/protocol'
import { checkSeconds } from './options/call-options.ts'
import type { Channel } from './channel.ts'
import type { SendOptions } from './options/channel-options.ts'
import { StaticClient } from './client.ts'
import type { AgentParts } from '../agent/agent.ts'
import type { Envelope } from './envelope.ts'
import type { SentMessage } from '../channel/sending/outbox.ts'
import type { IssuedInvite } from '../admitting/issued.ts'
import type { CreateOptions, InviteOptions, LinkOptions, ShowOptions } from './options/invite-options.ts'
import type { ClientOptions } from '../gen/client-options.ts'

const MS = 1000
const RECEIVE_SECONDS = 5

const MOST_AT_ONCE = 100

/** A pending read of the next payload. */
type PendingRead = Promise<IteratorResult<Envelope, undefined>>

/** The state of `receive` for one channel. */
interface ChannelReader {
  /** The messages that the last call returned. The next call settles them. */
  given: Envelope[]
  readonly waiting: PendingRead[]
}

/**
 * A `StaticClient` whose channels are named in each call, and whose messages are returned by calls (`receive`). For
 * programs that poll, such as tools of a language model; others use the client.
 *
 * @example
 * const manager = await StaticChannelManager.connect({ endpoint, dataDir, identity, apiKey, apiUrl })
 * await manager.create('acme/support/routing')
 * const token = await manager.invite('acme/support/routing')
 */
export class StaticChannelManager implements AsyncDisposable {
  /** The underlying client, for everything else. */
  readonly client: StaticClient
  readonly #readers = new Map<Channel, ChannelReader>()

  private constructor(client: StaticClient) {
    this.client = client
  }

  /** Resolves with `listener_died` if join requests are no longer answered. See `StaticClient.died`. */
  get died(): Promise<StaticError> {
    return this.client.died
  }

  /**
   * Connects like `StaticClient.connect`.
   *
   * @throws {StaticError} see `StaticClient.connect`
   */
  static async connect(options: ClientOptions = {}): Promise<StaticChannelManager> {
    return new StaticChannelManager(await StaticClient.connect(options))
  }

  /** @internal Starts a manager from the given parts. `relay` is the relay's name. */
  static async start(parts: AgentParts, relay: string): Promise<StaticChannelManager> {
    return new StaticChannelManager(await StaticClient.start(parts, relay))
  }

  /** Creates a channel, or opens it if this agent already owns it. See `StaticClient.createChannel`. */
  async create(name: string, options: CreateOptions = {}): Promise<Channel> {
    return await this.client.createChannel(name, options)
  }

  /** Creates an invite token. See `StaticClient.invite`. */
  async invite(name: string, options: InviteOptions = {}): Promise<string> {
    return await this.client.invite(name, options)
  }

  /** Creates an invite and returns it as a link. See `StaticClient.inviteLink`. */
  async inviteLink(name: string, options: LinkOptions = {}): Promise<string> {
    return await this.client.inviteLink(name, options)
  }

  /** Revokes an invite. See `StaticClient.revokeInvite`. */
  async revokeInvite(tokenOrId: string): Promise<void> {
    await this.client.revokeInvite(tokenOrId)
  }

  /** The invites to a channel created by this agent. See `StaticClient.invites`. */
  invites(name: string): readonly IssuedInvite[] {
    return this.client.invites(name)
  }

  /** Joins a channel with an invite token. See `StaticClient.joinWithToken`. */
  async joinWithToken(name: string, token: string, timeout?: number, options: ShowOptions = {}): Promise<Channel> {
    return await this.client.joinWithToken(name, token, timeout, options)
  }

  /** Joins a channel with an invite link. See `StaticClient.joinWithLink`. */
  async joinWithLink(link: string, timeout?: number, options: ShowOptions = {}): Promise<Channel> {
    return await this.client.joinWithLink(link, timeout, options)
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
    const [envelope] = await this.client.edge.wait(() => this.#receive(name, timeout, 1))
    return envelope?.payload ?? null
  }

  /**
   * All available payloads, at most 100. Waits up to `timeout` seconds for the first one. The next call or `close`
   * settles them.
   */
  async receiveEnvelopes(name: string, timeout: number = RECEIVE_SECONDS): Promise<readonly Envelope[]> {
    return await this.client.edge.wait(() => this.#receive(name, timeout, MOST_AT_ONCE))
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

  async #receive(name: string, timeout: number, most: number): Promise<readonly Envelope[]> {
    checkSeconds('receive', timeout)
    this.client.checkAlive()
    const channel = this.client.channel(name)
    const reader = this.#readers.get(channel) ?? { given: [], waiting: [] }
    this.#readers.set(channel, reader)
    const settled = reader.given
    reader.given = []
    for (const envelope of settled) envelope.settle()
    // After a timeout, one read stays pending.
    const waiting = reader.waiting.shift() ?? waitOn(channel)
    const first = await withinTime(waiting, timeout * MS)
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
