/** Both sides of invites, as an agent hands things on to them. */
import type { StaticError } from '@static/protocol'
import type { DeliverWelcome } from '@static/protocol/relay'
import type { Agent } from '../core/agent/agent.ts'
import type { Membership } from '../core/channel/membership.ts'
import type { AgentId, ChannelId, SessionInfo } from '../ports.ts'
import { JoinAttempts } from './attempts.ts'
import { InviteDesk } from './desk.ts'
import type { InviteHandler } from './handler.ts'

/** The invites of one agent, and those it joins by. */
export class Invites implements InviteHandler {
  readonly desk: InviteDesk
  readonly attempts: JoinAttempts
  readonly #died: (error: StaticError) => void

  /** `relay` is the relay's name; `died` is told when nobody is answered any more. */
  constructor(agent: Agent, relay: string, died: (error: StaticError) => void) {
    this.desk = new InviteDesk(agent, relay, died)
    this.attempts = new JoinAttempts(agent, relay)
    this.#died = died
  }

  opened(info: SessionInfo): void {
    this.desk.opened()
    this.attempts.opened(info)
  }

  welcomed(delivered: DeliverWelcome): boolean {
    return this.attempts.welcomed(delivered)
  }

  refused(inviteId: Uint8Array, code: string): void {
    this.attempts.refused(inviteId, code)
  }

  admitted(channel: ChannelId, joiner: string): void {
    this.desk.admitted(channel, joiner)
  }

  greeted(membership: Membership, kind: 'hello' | 'greeting', sender: AgentId, payload: Uint8Array): void {
    if (kind === 'hello') this.desk.hello(membership, sender, payload)
    else this.attempts.greeting(membership, sender, payload)
  }

  failed(name: string): void {
    this.attempts.failed(name)
  }

  dropped(id: ChannelId): void {
    this.desk.dropped(id)
    this.attempts.dropped(id)
  }

  async removing(membership: Membership, agent: AgentId): Promise<void> {
    await this.desk.removing(membership, agent)
  }

  stop(cause: StaticError | undefined): void {
    this.desk.stop()
    this.attempts.stop()
    if (cause) this.#died(cause)
  }
}
