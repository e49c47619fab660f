/** Where agents stand in their channels: they resume from there, and their acknowledgements move it on. */
import { message } from '@static/protocol'
import { type AckRequest, AckResponseSchema, type ResumeRequest, ResumeResponseSchema } from '@static/protocol/relay'
import type { Account, AgentId, ChannelId, StoreRequest, StoreResult } from '../../ports.ts'
import type { PendingRequest } from '../pending-request.ts'
import { Rates } from '../rates.ts'
import { channelIdOf, numberOf, wrong } from '../request-fields.ts'
import { type Body, refusalOf, wireStanding } from '../server-messages.ts'
import type { Session } from '../stream.ts'
import { allowMemberEnvelopes, type ChannelContext } from './context.ts'

/** The cursors of one node's agents. */
export class Resumes {
  readonly #context: ChannelContext
  readonly #rememberPayer: (channel: ChannelId, account: Account) => void
  readonly #rates: Rates

  /** `rememberPayer` is told who pays for a guest's messages. */
  constructor(context: ChannelContext, rememberPayer: (channel: ChannelId, account: Account) => void) {
    this.#context = context
    this.#rememberPayer = rememberPayer
    const { resumedPerMinute } = context.settings.rates
    this.#rates = new Rates(resumedPerMinute / 60, resumedPerMinute)
  }

  /** Tells where the agent stands and starts the deliveries from there. */
  resume(request: PendingRequest, session: Session, value: ResumeRequest): void {
    const query = this.#query(request, value)
    if (query) this.#resume(request, session, query)
  }

  /** Where the caller stands, without deliveries: for unary calls. */
  standings(request: PendingRequest, value: ResumeRequest): void {
    const query = this.#query(request, value)
    if (!query) return
    this.#context.effects.store('resume', query, (outcome) => {
      if (!outcome.ok) return request.refuse(refusalOf(outcome.error))
      request.answer(standingsAnswer(outcome.value))
    })
  }

  /** Moves cursors, and answers. */
  acknowledge(request: PendingRequest, { positions }: AckRequest): void {
    const { agent } = request.caller
    this.#context.effects.store('ack', { agent, positions: this.#delivered(agent, positions) }, (outcome) => {
      if (!outcome.ok) return request.refuse(refusalOf(outcome.error))
      request.answer({ case: 'ack', value: message(AckResponseSchema, {}) })
    })
  }

  /**
   * The same without an answer, at the next tick: a flush to disk for each would cost more than the messages, and an
   * acknowledgement that is lost only repeats a delivery.
   */
  acknowledgeLater({ agent, acknowledged }: Session, { positions }: AckRequest): void {
    for (const { channel, index } of this.#delivered(agent, positions)) {
      acknowledged.set(channel, Math.max(index, acknowledged.get(channel) ?? 0))
    }
  }

  /** Stores what a session has acknowledged. */
  storeAcknowledged({ agent, acknowledged }: Session): void {
    if (acknowledged.size === 0) return
    const positions = [...acknowledged].map(([channel, index]) => ({ channel, index }))
    acknowledged.clear()
    // A cursor that the store could not move moves with the next acknowledgement.
    this.#context.effects.store('ack', { agent, positions }, () => {})
  }

  tick(): void {
    for (const session of this.#context.delivery.sessions()) this.storeAcknowledged(session)
  }

  #resume(request: PendingRequest, session: Session, query: StoreRequest<'resume'>): void {
    const { effects, delivery } = this.#context
    const { agent } = session
    this.storeAcknowledged(session)
    const meanwhile = delivery.resuming(agent)
    effects.store('resume', query, (outcome) => {
      delivery.answered(meanwhile)
      if (!outcome.ok) return request.refuse(refusalOf(outcome.error))
      // What the store told is from before: the agent would take the end of a stay for the end of the next one.
      if (meanwhile.added) return this.#resume(request, session, query)
      const { standings, member } = outcome.value
      if (member) allowMemberEnvelopes(this.#context, agent)
      request.answer(standingsAnswer(outcome.value))
      // Replaced meanwhile: the newer session resumes by itself.
      if (delivery.session(agent) !== session) return
      if (!session.resumed) {
        session.resumed = true
        delivery.welcomed(session)
      }
      for (const standing of standings) {
        if ('refused' in standing) continue
        if (!session.account) this.#rememberPayer(standing.channel, standing.payer)
        delivery.start(session, standing, meanwhile.reached.get(standing.channel))
      }
    })
  }

  /** What to ask the store for; undefined when the request was refused. Each channel costs, whoever names it. */
  #query(request: PendingRequest, { channelIds, after }: ResumeRequest): StoreRequest<'resume'> | undefined {
    const { resumedChannels: limit } = this.#context.settings.counts
    if (channelIds.length > limit) throw wrong(`at most ${limit} channels are resumed at once`)
    const { agent } = request.caller
    const { monotonic: now } = this.#context.effects
    const cost = Math.max(1, channelIds.length)
    const wait = this.#rates.take(agent, now, cost) || this.#rates.take(request.stream.address, now, cost)
    if (wait > 0) {
      request.refuse({ refused: 'rate_limited', retryAfterMs: wait })
      return undefined
    }
    const channels = channelIds.length === 0 ? undefined : [...new Set(channelIds.map(channelIdOf))]
    return { agent, channels, after: after.length === 0 ? undefined : channelIdOf(after), limit }
  }

  /** Only what was delivered is acknowledged. */
  #delivered(agent: AgentId, positions: AckRequest['positions']): { channel: ChannelId; index: number }[] {
    return positions.map(({ channelId, index }) => {
      const channel = channelIdOf(channelId)
      const upTo = numberOf(index, 'index')
      if (upTo > this.#context.delivery.sentTo(agent, channel)) throw wrong('only what was delivered is acknowledged')
      return { channel, index: upTo }
    })
  }
}

function standingsAnswer({ standings, more }: StoreResult<'resume'>): Body {
  return { case: 'resume', value: message(ResumeResponseSchema, { channels: standings.map(wireStanding), more }) }
}
