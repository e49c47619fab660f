/**
 * Commits that this agent followed as the owner, and the members that still send in the epoch before: they could not
 * follow, or only claim so. Neither can be proven, so a dispute is only reported to the application.
 */
import type { AgentId } from '../../ports/index.ts'

/** A commit that members did not follow. */
export interface Dispute {
  /** The sender of the commit. */
  readonly sender: AgentId
  readonly slot: number
  /** The members that have since sent in the epoch before it. */
  readonly members: readonly AgentId[]
}

interface Followed {
  readonly sender: AgentId
  readonly slot: number
  readonly members: Set<AgentId>
}

/** Limit of remembered commits, and of remembered members. */
const MOST = 1024

/** The disputes of one channel, since the agent started. */
export class Disputes {
  /** By the epoch that the commit ended. */
  readonly #followed = new Map<bigint, Followed>()
  /** The last epoch in which each member was heard: it has followed all earlier commits. */
  readonly #lastEpochs = new Map<AgentId, bigint>()

  /** The owner has followed a commit by another member, made in this epoch. */
  followed(epoch: bigint, sender: AgentId, slot: number): void {
    const [oldest] = this.#followed.keys()
    if (this.#followed.size >= MOST && oldest !== undefined) this.#followed.delete(oldest)
    this.#followed.set(epoch, { sender, slot, members: new Set() })
  }

  /** A message or commit from a member was decrypted in this epoch. */
  noteEpoch(member: AgentId, epoch: bigint): void {
    if (this.#lastEpochs.size >= MOST) this.#lastEpochs.clear()
    this.#lastEpochs.set(member, epoch)
  }

  /**
   * A member that has received all commits sends in this earlier epoch. Returns a report of the commit it did not
   * follow: with the first such member, and each time their number has doubled.
   */
  behind(member: AgentId, epoch: bigint): Dispute | undefined {
    const followed = this.#followed.get(epoch)
    if (!followed || followed.sender === member || (this.#lastEpochs.get(member) ?? -1n) > epoch) return undefined
    const { sender, slot, members } = followed
    if (members.has(member)) return undefined
    members.add(member)
    const isReported = Number.isInteger(Math.log2(members.size))
    return isReported ? { sender, slot, members: [...members] } : undefined
  }
}
