/** Members come, go, are removed, replace their keys and hand the channel over, all the while. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Below } from '@static/testkit/random'
import type { AgentProcess } from './world/agent.ts'
import { OrderFailed } from './world/agent.ts'

/** Errors after which an invite is useless. After others, a joiner retries with the same one. */
const ENDS = new Set(['invite_used_up', 'invite_expired', 'invite_revoked', 'invite_invalid'])

/** The participants. */
export interface Company {
  /** The owner at first, and the one to which it hands the channel over, and back. Only the first may be killed. */
  readonly owners: readonly [AgentProcess, AgentProcess]
  /** Agents that stay, including the owner. */
  readonly stayers: readonly AgentProcess[]
  readonly visitors: readonly AgentProcess[]
}

/** An invite that a visitor holds. */
interface Held {
  readonly invite: string
  readonly token: string
}

/** The life of a channel. */
export class Life {
  /** How often each thing has happened. */
  readonly counts: Record<string, number> = {}
  readonly #company: Company
  readonly #below: Below
  readonly #held = new Map<AgentProcess, Held>()
  readonly #joinSeconds: number
  #owner: AgentProcess
  /** The agent that may have taken the channel over without an answer. */
  #heir: AgentProcess | undefined
  #invites = 0

  constructor(company: Company, below: Below, joinSeconds: number) {
    this.#company = company
    ;[this.#owner] = company.owners
    this.#below = below
    this.#joinSeconds = joinSeconds
  }

  /** Runs until it is stopped. */
  async live(over: AbortSignal, pauseMs: number): Promise<void> {
    while (!over.aborted) {
      await this.#tolerate(() => this.#something())
      await delay(pauseMs)
    }
  }

  /** Lets all agents join, one after another. */
  async admitAll(agents: readonly AgentProcess[]): Promise<void> {
    for (const agent of agents) await this.#join(agent, await this.#invite(1, 'owner'))
  }

  /** Retries joins that were under way. */
  async finish(): Promise<void> {
    const late = [...this.#held].filter(([visitor]) => !visitor.isMember)
    await Promise.all(late.map(([visitor, held]) => this.#tolerate(() => this.#join(visitor, held))))
  }

  async #something(): Promise<void> {
    const { visitors, stayers } = this.#company
    const visitor = visitors[this.#below(visitors.length)]
    if (this.#heir) return this.#takeOver(this.#heir)
    switch (this.#below(5)) {
      case 0:
        await pick(stayers, this.#below).order({ order: 'rotate' })
        return this.#count('keys replaced')
      case 1:
        return this.#contest()
      case 2:
        return this.#handOver()
      default:
        if (visitor) await (visitor.isMember ? this.#part(visitor) : this.#join(visitor, await this.#heldBy(visitor)))
    }
  }

  /** The channel goes from one owner to the other. */
  async #handOver(): Promise<void> {
    const heir = this.#company.owners.find((agent) => agent !== this.#owner)
    if (!heir) return
    await this.#owner.order({ order: 'transfer', agent: heir.id })
    this.#heir = heir
    await this.#takeOver(heir)
  }

  /** Asked again after a crash, the new owner says that it is. */
  async #takeOver(heir: AgentProcess): Promise<void> {
    await heir.order({ order: 'take over' })
    this.#owner = heir
    this.#heir = undefined
    this.#count('handed over')
  }

  /** A member leaves or is removed. */
  async #part(visitor: AgentProcess): Promise<void> {
    if (this.#below(2) === 0) {
      await visitor.order({ order: 'leave' })
      this.#count('left')
    } else {
      await this.#owner.order({ order: 'remove', agent: visitor.id })
      this.#count('removed')
    }
  }

  /** More visitors than an invite has uses, while the owner is off: members let them in. */
  async #contest(): Promise<void> {
    const { visitors, owners } = this.#company
    const owner = this.#owner
    if (owner !== owners[0]) return
    for (const visitor of visitors) if (visitor.isMember) await this.#part(visitor)
    const free = visitors.filter((visitor) => !this.#held.has(visitor))
    if (free.length < 2) return
    const held = await this.#invite(free.length - 1, 'members')
    await owner.kill({ stay: true })
    try {
      const joins = await Promise.allSettled(free.map((visitor) => this.#join(visitor, held)))
      for (const join of joins) if (join.status === 'rejected') await this.#tolerate(() => Promise.reject(join.reason))
    } finally {
      owner.start()
    }
    this.#count('joins while the owner was off')
  }

  async #join(visitor: AgentProcess, held: Held): Promise<void> {
    this.#held.set(visitor, held)
    try {
      await visitor.order({ order: 'join', ...held, timeout: this.#joinSeconds })
      this.#held.delete(visitor)
      this.#count('joined')
    } catch (error) {
      if (error instanceof OrderFailed && ENDS.has(error.code)) this.#held.delete(visitor)
      throw error
    }
  }

  async #heldBy(visitor: AgentProcess): Promise<Held> {
    return this.#held.get(visitor) ?? (await this.#invite(1, this.#below(2) === 0 ? 'owner' : 'members'))
  }

  async #invite(uses: number, admit: 'owner' | 'members'): Promise<Held> {
    const invite = `invite-${++this.#invites}`
    const token = await this.#owner.order({ order: 'invite', invite, uses, admit })
    return { invite, token: token ?? '' }
  }

  /** Orders fail when their agent is killed, or when members change at the same time. */
  async #tolerate(work: () => Promise<unknown>): Promise<void> {
    try {
      await work()
    } catch (error) {
      if (!(error instanceof OrderFailed)) throw error
      this.#count(`failed with ${error.code}`)
    }
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }
}

function pick(agents: readonly AgentProcess[], below: Below): AgentProcess {
  const agent = agents[below(agents.length)]
  if (!agent) throw new Error('There is no agent.')
  return agent
}
