/**
 * One client on behalf of a program in another language. Runs its calls with the SDK and makes no decisions of its own.
 * Channels, iterators and offers are identified by number.
 */
import { StaticError } from '@static/protocol'
import type { Channel } from '../public/channel.ts'
import { type JoinOffer, StaticClient } from '../public/client.ts'
import type { AgentEvent } from '../agent/events.ts'
import { resolveSettings } from '../public/settings.ts'
import type { ProofOption } from '../account/trust/desk.ts'
import type { SendOptions } from '../public/options/channel-options.ts'
import type { Answer } from '../public/envelope.ts'
import { AskCalls, plainAnswer } from './ask-calls.ts'
import { answerChannelCall } from './channel-calls.ts'
import { FileCalls, isFileCall } from './file-calls.ts'
import { HeldOffers } from './held-offers.ts'
import { answerInviteCall } from './invite-calls.ts'
import type { Call, CallResult, ChannelRef, DriverOptions, FileCall, Notice, Tell } from './pipe-protocol.ts'
import { Minting } from './minting.ts'
import { PendingCalls } from './pending-calls.ts'
import type { PipeFrame } from './pipe-frame.ts'
import { given, plainError, plainEvent } from './plain.ts'
import { answerPoisonCall } from './poison-calls.ts'
import { Reading } from './reading.ts'

type Happening = AgentEvent | JoinOffer

/** An iterator and the pending calls for its next item. A plain `return` would be queued behind them. */
interface Listening {
  readonly iterator: AsyncIterator<Happening>
  readonly waiting: Set<PromiseWithResolvers<IteratorResult<Happening>>>
}

/** The client of one program. */
export class Driver {
  readonly #tell: Tell
  #client: StaticClient | undefined
  readonly #channels: { readonly channel: Channel; readonly reading: Reading }[] = []
  readonly #listenings = new Map<number, Listening>()
  readonly #offers = new HeldOffers<JoinOffer>()
  readonly #pending = new PendingCalls()
  readonly #askCalls: AskCalls
  readonly #fileCalls: FileCalls
  readonly #minting: Minting
  #connecting: Promise<unknown> | undefined
  #isClosed = false
  /** The program has reported which messages its readers have seen. */
  #hasSaidBye = false
  #numbers = 0

  constructor(tell: Tell) {
    this.#tell = tell
    this.#askCalls = new AskCalls(tell)
    this.#fileCalls = new FileCalls(tell, this.#pending)
    this.#minting = new Minting(tell)
  }

  /** Handles a frame from the program. */
  handle({ header, bytes }: PipeFrame): void {
    const message = header as (Call & { readonly id: number }) | Notice
    if (!('id' in message)) return this.#handleNotice(message)
    const { id } = message
    const answered = isFileCall(message)
      ? this.#fileCalls.answer(({ on }) => this.#held(on).channel, message)
      : this.#answer(message, bytes)
    answered.then(
      ({ result, bytes }) => this.#tell({ id, result }, bytes),
      (error: unknown) => this.#tell({ id, error: plainError(error) }),
    )
  }

  /** Whether the client is not open yet. */
  get isConnecting(): boolean {
    return this.#connecting !== undefined
  }

  /** Shuts the client down, even one that is still connecting. */
  async close(): Promise<void> {
    this.#minting.close()
    this.#isClosed = true
    await this.#connecting?.catch(() => {})
    // The program may have been killed after its readers saw any of these.
    if (!this.#hasSaidBye) for (const { reading } of this.#channels) reading.given(Infinity)
    await this.#client?.close()
  }

  #handleNotice(notice: Notice): void {
    switch (notice.do) {
      case 'more':
        return this.#held(notice.on).reading.more(notice.count, notice.run)
      case 'settle':
        return this.#held(notice.on).reading.settle(notice.tokens)
      case 'recall':
        return this.#held(notice.on).reading.recall(notice.tokens, notice.before)
      case 'given':
        return this.#held(notice.on).reading.given(notice.upTo)
      case 'bye':
        this.#hasSaidBye = true
        return
      case 'handled':
        return this.#held(notice.on).reading.handled(notice.token, notice.error, notice.isUnfit === true)
      case 'answered':
        return this.#askCalls.answered(notice.token, notice.error)
      case 'minted':
        return this.#minting.minted(notice.token, notice.jwt, notice.error)
      case 'cancel':
        return this.#pending.cancel(notice.call)
    }
  }

  async #answer(call: Exclude<Call, FileCall> & { readonly id: number }, bytes: Uint8Array): Promise<CallResult> {
    switch (call.do) {
      case 'connect':
        this.#connecting = this.#connect(call, bytes).finally(() => (this.#connecting = undefined))
        return { result: await this.#connecting }
      case 'createChannel':
        return { result: this.#describe(await this.#open().createChannel(call.name, given(call, 'show', 'require'))) }
      case 'channel':
        return { result: this.#describe(this.#open().channel(call.name)) }
      case 'channels': {
        const channels = this.#open().channels()
        return { result: channels.map((channel) => this.#describe(channel)) }
      }
      case 'generateKeyPackage':
        return { bytes: await this.#open().generateKeyPackage() }
      case 'joinChannel': {
        return {
          result: this.#describe(await this.#open().joinChannel(call.name, bytes, given(call, 'owner', 'show'))),
        }
      }
      case 'sendTo':
        return {
          result: await this.#pending.run(call, (limits) => this.#open().channel(call.name).send(bytes, limits)),
        }
      case 'handle': {
        const { id, on, concurrency, attempts } = call
        await this.#pending.run(call, ({ signal }) =>
          this.#held(on).reading.handle(id, { concurrency, attempts, signal }),
        )
        return {}
      }
      case 'serve': {
        const { id, on, concurrency, perAsker } = call
        await this.#pending.run(call, ({ signal }) =>
          this.#askCalls.serve(this.#held(on).channel, id, { concurrency, perAsker, signal }),
        )
        return {}
      }
      case 'askOne': {
        const { on, to } = call
        const wait = (limits: SendOptions): Promise<Answer> => this.#held(on).channel.askOne(bytes, { to, ...limits })
        return plainAnswer(await this.#pending.run(call, wait))
      }
      case 'ask':
      case 'asked':
      case 'nextAnswer':
      case 'cancelAsk':
      case 'answer':
        return this.#askCalls.answer((on) => this.#held(on).channel, call, bytes)
      case 'events':
        return { result: this.#listen(this.#open().events()) }
      case 'joins':
        return { result: this.#listen(this.#open().joins()) }
      case 'next':
        return { result: await this.#next(call.on) }
      case 'return':
        this.#leave(call.on)
        return {}
      case 'accept':
        return {
          result: this.#describe(await this.#offers.answer(call.on, (offer) => offer.accept(given(call, 'show')))),
        }
      case 'decline':
        await this.#offers.answer(call.on, (offer) => offer.decline())
        return {}
      case 'invite':
      case 'inviteLink':
      case 'joinWithLink':
      case 'joinWithToken':
      case 'invites':
      case 'revokeInvite':
        return answerInviteCall(this.#open(), call, (channel) => this.#describe(channel))
      case 'poison':
      case 'retryPoison':
      case 'dropPoison':
        return answerPoisonCall(this.#held(call.on).channel.poison, call)
      default:
        return answerChannelCall(this.#held(call.on).channel, call, bytes, this.#pending)
    }
  }

  async #connect(call: Extract<Call, { readonly do: 'connect' }>, bytes: Uint8Array): Promise<unknown> {
    // The program warns about its handlers itself: it has their stacks.
    const { proof, ...plain } = call.options
    const options = {
      ...plain,
      ...(proof !== undefined && { proof: this.#proofOf(proof) }),
      ...(call.hasIdentity ? { identity: bytes } : {}),
      logger: false as const,
    }
    const settings = resolveSettings(options, call.environment)
    this.#client = await StaticClient.open(settings)
    void this.#client.died.then((error) => this.#tell({ event: 'died', error: plainError(error) }))
    if (this.#isClosed) throw StaticError.of('closed')
    const { agentId, apiUrl } = this.#client
    return { agentId, fingerprint: this.#client.fingerprint(), apiUrl: apiUrl ?? null }
  }

  #proofOf(proof: Exclude<DriverOptions['proof'], undefined>): ProofOption {
    return typeof proof === 'object' && 'mint' in proof ? (audience) => this.#minting.mint(audience) : proof
  }

  async #next(on: number): Promise<unknown> {
    const listening = this.#listenings.get(on)
    if (!listening) return { done: true }
    const next = Promise.withResolvers<IteratorResult<Happening>>()
    listening.waiting.add(next)
    listening.iterator.next().then(next.resolve, next.reject)
    const { done, value } = await next.promise.finally(() => listening.waiting.delete(next))
    if (done === true) return { done }
    if (!('accept' in value)) return { event: plainEvent(value) }
    const offer = ++this.#numbers
    this.#offers.put(offer, value)
    const { name, channelId, owner, addedBy } = value
    return { offer, name, channelId, owner, addedBy }
  }

  #listen(iterator: AsyncIterator<Happening>): number {
    const number = ++this.#numbers
    this.#listenings.set(number, { iterator, waiting: new Set() })
    return number
  }

  #leave(on: number): void {
    const listening = this.#listenings.get(on)
    this.#listenings.delete(on)
    for (const { resolve } of listening?.waiting ?? []) resolve({ done: true, value: undefined })
    listening?.iterator.return?.().catch(() => {})
  }

  #describe(channel: Channel): unknown {
    const { name, id, owner } = channel
    return { on: this.#numberOf(channel), name, id, owner }
  }

  /** A channel always gets the same number. */
  #numberOf(channel: Channel): number {
    const known = this.#channels.findIndex((held) => held.channel === channel)
    if (known >= 0) return known
    const on = this.#channels.length
    this.#channels.push({ channel, reading: new Reading(channel, on, this.#tell) })
    return on
  }

  #open(): StaticClient {
    if (!this.#client) throw StaticError.of('closed', 'The client is not open. Open it first.')
    return this.#client
  }

  #held(on: ChannelRef): { readonly channel: Channel; readonly reading: Reading } {
    const held = this.#channels[typeof on === 'number' ? on : this.#numberOf(this.#open().channel(on))]
    if (!held) throw StaticError.of('internal_error', `Unknown channel number ${on}.`)
    return held
  }
}
