/** Both sides of invites behind one handler. */
import type { StaticError } from '@static/protocol'
import type { DeliverWelcome } from '@static/protocol/relay'
import type { InviteHandler } from '../agent/invite-handler.ts'
import type { AgentServices } from '../agent/services.ts'
import type { AgentId, ChannelId, SessionInfo } from '../ports/index.ts'
import { Joins } from '../joining/joins.ts'
import { InviteIssuer } from './issuer.ts'

/** The invites of one agent: those it issued and those it joins with. */
export class Invites implements InviteHandler {
  readonly issuer: InviteIssuer
  readonly joins: Joins
  readonly #agent: Pick<AgentServices, 'channels'>
  readonly #died: (error: StaticError) => void

  /** `relay` is the relay's name. `died` is called when join requests are no longer answered. */
  constructor(agent: AgentServices, relay: string, died: (error: StaticError) => void) {
    this.#agent = agent
    this.issuer = new InviteIssuer(agent, relay, died)
    this.joins = new Joins(agent, relay)
    this.#died = died
  }

  opened(info: SessionInfo): void {
    this.issuer.opened()
    this.joins.opened(info)
  }

  welcomed(delivered: DeliverWelcome): Promise<void> | undefined {
    return this.joins.welcomed(delivered)
  }

  refused(inviteId: Uint8Array, code: string): void {
    this.joins.refused(inviteId, code)
  }

  admitted(id: ChannelId, joiner: string): void {
    this.issuer.admitted(id, joiner)
  }

  added(id: ChannelId, agent: AgentId): void {
    this.issuer.added(id, agent)
  }

  listChanged(id: ChannelId): void {
    this.issuer.listChanged(id)
  }

  useCounted(id: ChannelId, invite: string): void {
    this.issuer.useCounted(id, invite)
  }

  useReturned(invite: string): void {
    this.issuer.useReturned(invite)
  }

  ownerChanged(id: ChannelId, former: AgentId): void {
    this.issuer.ownerChanged(id)
    const channel = this.#agent.channels.get(id)
    if (channel) this.joins.ownerChanged(channel, former)
  }

  helloOrGreeting(id: ChannelId, kind: 'hello' | 'greeting', sender: AgentId, payload: Uint8Array): void {
    const channel = this.#agent.channels.get(id)
    if (!channel) return
    if (kind === 'hello') this.issuer.hello(channel, sender, payload)
    else this.joins.greeting(channel, sender, payload)
  }

  accepted(id: ChannelId): void {
    this.joins.accepted(id)
  }

  leaving(id: ChannelId): void {
    const channel = this.#agent.channels.get(id)
    if (channel) this.joins.leaving(channel)
  }

  failed(name: string): void {
    this.joins.failed(name)
  }

  dropped(id: ChannelId): void {
    this.issuer.dropped(id)
    this.joins.dropped(id)
  }

  async removing(id: ChannelId, agent: AgentId): Promise<() => void> {
    return await this.issuer.removing(id, agent)
  }

  stop(cause: StaticError | undefined): void {
    this.issuer.stop()
    this.joins.stop()
    if (cause) this.#died(cause)
  }
}
