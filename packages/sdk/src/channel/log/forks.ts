/** How a channel reacts when a member has seen a different history: it stops sending until the application decides. */
import type { AgentId } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { AgentChannel } from '../channel.ts'
import { Part, type RosterChange } from '../part.ts'
import type { Difference } from './history.ts'

/** The fork of one channel, if there is one. */
export class Forks extends Part {
  readonly #context: Pick<AgentContext, 'emit'>
  readonly #channel: AgentChannel

  constructor(context: Pick<AgentContext, 'emit'>, channel: AgentChannel) {
    super()
    this.#context = context
    this.#channel = channel
  }

  /** A message or receipt from a member shows a different history. */
  found(member: AgentId, difference: Difference): void {
    if (this.#channel.standing.record.fork !== undefined) return
    this.#channel.standing.set({ fork: member })
    this.#stop(member, `Agent ${member} has seen a different log (${difference}).`)
  }

  /** This agent has joined. Before that, its application could not be notified of a fork. */
  joined(): void {
    const { fork } = this.#channel.standing.record
    if (fork !== undefined) this.#stop(fork, `Agent ${fork} has seen a different log.`)
  }

  /** The application continues despite the fork. */
  accept(): void {
    const { fork } = this.#channel.standing.record
    if (fork === undefined) return
    this.#channel.history.accept(fork)
    this.#end()
  }

  /** Members were removed. If the one with the different history is among them, the fork is over. */
  override change({ removed }: RosterChange): void {
    const { fork } = this.#channel.standing.record
    if (fork !== undefined && removed.includes(fork)) this.#end()
  }

  #stop(member: AgentId, detail: string): void {
    const { name, group } = this.#channel
    if (this.#channel.standing.record.state === 'joined') {
      const identity = group?.members.get(member)?.identity ?? new Uint8Array()
      this.#context.emit({ type: 'fork_detected', channel: name, member, identity, detail })
    }
    const { standing, sender, listedInvites } = this.#channel
    const refusal = standing.refusal()
    if (!refusal) return
    sender.rejectQueued(refusal)
    // No caller waits for a claim that the relay has deferred.
    listedInvites.claims.end(refusal)
  }

  #end(): void {
    this.#channel.standing.set({ fork: undefined })
    // Work that the fork postponed: removing agents that have left, and sending a list of invites.
    this.#channel.roster.removeLeavers()
    this.#channel.listedInvites.sendDue()
  }
}
