/**
 * Entering a channel by the Welcome to a request (SPEC.md, 6.3). The relay deletes a Welcome that is acknowledged. So it is
 * acknowledged only when the channel is on disk, or when the Welcome can never be used.
 */
import { sha256 } from '#platform/crypto'
import { fromHex, StaticError, toHex } from '@static/protocol'
import type { DeliverWelcome } from '@static/protocol/relay'
import { same } from '../platform/bytes.ts'
import { resumeOf } from '../agent/deliveries.ts'
import { newChannel } from '../agent/founding.ts'
import type { AgentServices } from '../agent/services.ts'
import { wipeEpoch } from '../channel/group-state.ts'
import type { Joined } from '../mls/index.ts'
import type { ChannelId } from '../ports/index.ts'
import type { Attempt } from './attempt.ts'
import { checkName } from './held-channel.ts'
import type { OpenAttempts } from './open-attempts.ts'
import { indexOf, openWelcome, startOf } from './welcome.ts'

/** The Welcome is from an earlier attempt: this agent was removed since and added again. The newer Welcome follows. */
class Superseded extends Error {}

/** What became of a Welcome: the channel is entered, there is nothing to enter, or it is tried again. */
type Entry = 'entered' | 'nothing' | 'later'

/** Is told why a Welcome cannot be used for the moment, and uses it again. */
type Defer = (attempt: Attempt, delivered: DeliverWelcome, reason: StaticError) => void

/** The channels that an agent enters. */
export class Entries {
  readonly #agent: AgentServices
  readonly #attempts: OpenAttempts
  readonly #defer: Defer
  /** Channels whose Welcome is being checked: it may take the place of an earlier one for the same request. */
  readonly #entering = new Set<ChannelId>()
  /** Channels that were entered with the request that is under way. */
  readonly #entered = new Set<ChannelId>()

  constructor(agent: AgentServices, attempts: OpenAttempts, defer: Defer) {
    this.#agent = agent
    this.#attempts = attempts
    this.#defer = defer
    for (const { record } of attempts) {
      const state = agent.channels.get(record.channel)?.state ?? 'offered'
      if (state !== 'offered' && state !== 'joined') this.#entered.add(record.channel)
    }
  }

  isEntering(id: ChannelId): boolean {
    return this.#entering.has(id)
  }

  /** A channel is gone. Returns whether it was entered with the request that is under way, which is used up then. */
  ended(id: ChannelId): boolean {
    return this.#entered.delete(id) && !this.#entering.has(id)
  }

  /**
   * Checks a Welcome and enters the channel, which stays hidden until the owner has answered.
   *
   * @throws {StaticError} `invalid_welcome`, `channel_exists`: the Welcome is refused for good
   */
  async enter(attempt: Attempt, delivered: DeliverWelcome): Promise<Entry> {
    const { context, channels } = this.#agent
    const { channel: id, name } = attempt.record
    if (this.#isHeld(attempt, delivered)) return 'nothing'
    this.#entering.add(id)
    try {
      return await channels.names.run(name, async () => {
        this.#entering.add(id)
        // An offer was accepted since it arrived.
        if (this.#isHeld(attempt, delivered)) return 'nothing'
        const entry = await this.#open(attempt, delivered).catch((error: unknown) => {
          this.#acknowledge(delivered)
          throw error
        })
        if (entry === 'later') return entry
        await context.journal.written()
        this.#acknowledge(delivered)
        return entry
      })
    } finally {
      this.#entering.delete(id)
    }
  }

  async #open(attempt: Attempt, delivered: DeliverWelcome): Promise<Entry> {
    const { context, channels } = this.#agent
    const { channel: id, name } = attempt.record
    const welcome = Uint8Array.from(delivered.welcome?.welcome ?? [])
    const before = this.#attempts.held(attempt, 'joining')
    const used = channels.get(id)?.welcome
    if (used && same(used, sha256(welcome))) return 'nothing'
    checkName(this.#agent, name, id)
    const joined = await openWelcome(this.#agent, attempt, welcome, delivered.welcome?.tag ?? new Uint8Array())
    // Refused meanwhile: no one would say hello.
    if (!this.#attempts.isOpen(attempt)) {
      wipeEpoch(context.engine, joined)
      return 'nothing'
    }
    // Either it was removed before its hello arrived, asked again and was added again, or it also has an offer.
    const offered = channels.get(id)
    const mayReplace = offered?.name === name && (offered === before || offered.state === 'offered')
    if (offered && !mayReplace) {
      wipeEpoch(context.engine, joined)
      throw StaticError.of('channel_exists', `This agent is already a member of channel ${name}.`)
    }
    if (offered) channels.drop(offered, undefined)
    return await this.#begin(attempt, joined, sha256(welcome), delivered)
  }

  /** Asks the relay where the log begins. If it does not say so now, nothing is kept but the KeyPackage. */
  async #begin(attempt: Attempt, joined: Joined, welcomeHash: Uint8Array, delivered: DeliverWelcome): Promise<Entry> {
    const { context, channels, requests } = this.#agent
    const { channel: id, name, owner } = attempt.record
    const nowhere = { index: 0, hash: new Uint8Array(), slot: 0 }
    const offer = { offeredBy: toHex(joined.signer.agentId) }
    const channel = channels.hold(newChannel(id, name, owner, 'joining', nowhere, offer))
    try {
      await requests.ask(resumeOf([fromHex(id)]), ({ channels: [state] }) => {
        const start = startOf(state)
        if (start.index !== indexOf(delivered)) throw new Superseded()
        channel.enter(joined, 'joining', start, welcomeHash)
        this.#entered.add(id)
        if (attempt.record.takenBack) this.#attempts.change(attempt, { takenBack: false })
        if (state) channel.intake.answered(state)
      })
      return 'entered'
    } catch (error) {
      wipeEpoch(context.engine, joined)
      const reason = StaticError.from(error)
      const isOver = error instanceof Superseded || reason.code === 'invalid_welcome'
      // Before the channel is dropped: an agent with a Welcome does not ask for another.
      if (!isOver) this.#defer(attempt, delivered, reason)
      channels.drop(channel, undefined)
      if (!isOver) return 'later'
      if (error instanceof Superseded) return 'nothing'
      throw reason
    }
  }

  /** Whether a Welcome waits for the end of an earlier membership. One that is offered, or being joined, is replaced. */
  #isHeld(attempt: Attempt, delivered: DeliverWelcome): boolean {
    const earlier = this.#agent.channels.get(attempt.record.channel)
    const isCurrent = earlier === this.#attempts.held(attempt, 'joining')
    if (earlier?.name !== attempt.record.name || earlier.state === 'offered' || isCurrent) return false
    return this.#agent.held.hold(earlier, delivered)
  }

  /** Of its own channel: an index of another one would skip entries of this one. */
  #acknowledge(delivered: DeliverWelcome): void {
    this.#agent.context.deliveries.acknowledge(toHex(delivered.channelId), indexOf(delivered))
  }
}
