/** What a channel does when a member has seen a different history: it stops sending until the application decides. */
import type { StaticError } from '@static/protocol'
import type { AgentId } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { ChannelView } from '../part.ts'
import type { Standing } from '../standing.ts'
import type { Difference } from './history.ts'

/** What a fork does to its channel. */
interface ForkHost {
  /** Fails what waits to be sent. */
  stop(error: StaticError): void
  over(): void
}

/** The fork of one channel, if there is one. */
export class Forks {
  readonly #context: Pick<AgentContext, 'emit'>
  readonly #channel: ChannelView
  readonly #standing: Standing
  readonly #host: ForkHost

  constructor(context: Pick<AgentContext, 'emit'>, channel: ChannelView, standing: Standing, host: ForkHost) {
    this.#context = context
    this.#channel = channel
    this.#standing = standing
    this.#host = host
  }

  /** A message or receipt of a member shows a different history. */
  found(member: AgentId, difference: Difference): void {
    if (this.#standing.record.fork !== undefined) return
    this.#standing.set({ fork: member })
    this.#stop(member, `Agent ${member} has seen a different log (${difference}).`)
  }

  /** This agent has joined. Its application could not be told of a fork before. */
  joined(): void {
    const { fork } = this.#standing.record
    if (fork !== undefined) this.#stop(fork, `Agent ${fork} has seen a different log.`)
  }

  /** The application continues nevertheless. */
  accept(): void {
    const { fork } = this.#standing.record
    if (fork === undefined) return
    this.#channel.history.accept(fork)
    this.#end()
  }

  /** Members were removed: with the one that has seen a different history, the fork is over. */
  removed(agents: readonly AgentId[]): void {
    const { fork } = this.#standing.record
    if (fork !== undefined && agents.includes(fork)) this.#end()
  }

  #stop(member: AgentId, detail: string): void {
    const { name, group } = this.#channel
    if (this.#standing.record.state === 'joined') {
      const identity = group?.members.get(member)?.identity ?? new Uint8Array()
      this.#context.emit({ type: 'fork_detected', channel: name, member, identity, detail })
    }
    const refusal = this.#standing.refusal()
    if (refusal) this.#host.stop(refusal)
  }

  #end(): void {
    this.#standing.set({ fork: undefined })
    this.#host.over()
  }
}
