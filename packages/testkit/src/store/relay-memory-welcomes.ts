/** Pending Welcomes and the GroupInfos they share as maps. */
import type {
  AgentId,
  Channel,
  DroppedWelcome,
  NewWelcome,
  StoredWelcome,
  Time,
  WelcomeRows,
} from '@static/relay/internal'
import { channelsOwnedBy } from './relay-memory-channels.ts'
import { type Kept, keptOf, type MemoryState } from './relay-memory-state.ts'

/** All Welcomes, in memory. */
export class MemoryWelcomeRows implements WelcomeRows {
  readonly #state: MemoryState

  constructor(state: MemoryState) {
    this.#state = state
  }

  get(sequence: number): StoredWelcome {
    for (const kept of this.#state.channels.values()) {
      for (const { welcome } of kept.welcomes.values()) {
        if (welcome.sequence === sequence) return delivered(kept, welcome.agent) ?? welcome
      }
    }
    throw new Error(`Welcome ${sequence} does not exist`)
  }

  put(channel: Channel, { shares, ...welcome }: NewWelcome, at: Time): void {
    const stored = { ...welcome, sequence: ++this.#state.lastSequence }
    keptOf(this.#state, channel).welcomes.set(welcome.agent, { welcome: stored, shares, at })
  }

  drop(channel: Channel, agent: AgentId): DroppedWelcome | undefined {
    const { welcomes } = keptOf(this.#state, channel)
    const waiting = welcomes.get(agent)
    welcomes.delete(agent)
    if (!waiting) return undefined
    const { welcome, shares } = waiting
    return { bytes: welcome.welcome.length, shared: shares ? welcome.position.index : undefined }
  }

  putGroupInfo(channel: Channel, index: number, groupInfo: Uint8Array): void {
    keptOf(this.#state, channel).groupInfos.set(index, groupInfo)
  }

  dropGroupInfo(channel: Channel, index: number): number {
    const { welcomes, groupInfos } = keptOf(this.#state, channel)
    for (const { welcome, shares } of welcomes.values()) if (shares && welcome.position.index === index) return 0
    const bytes = groupInfos.get(index)?.length ?? 0
    groupInfos.delete(index)
    return bytes
  }

  count({ id, account }: Channel, agent: AgentId): number {
    const others = channelsOwnedBy(this.#state, account).filter((channel) => channel.id !== id)
    return others.filter((channel) => keptOf(this.#state, channel).welcomes.has(agent)).length
  }

  of(agent: AgentId, after: number): { readonly sequence: number; readonly size: number }[] {
    return [...this.#state.channels.values()]
      .flatMap((kept) => delivered(kept, agent) ?? [])
      .filter(({ sequence }) => sequence > after)
      .sort((one, other) => one.sequence - other.sequence)
      .map(({ sequence, welcome }) => ({ sequence, size: welcome.length }))
  }
}

/** The Welcome that waits for an agent, with what follows it. */
function delivered({ welcomes, groupInfos }: Kept, agent: AgentId): StoredWelcome | undefined {
  const { welcome: stored, shares } = welcomes.get(agent) ?? {}
  if (!stored || shares !== true) return stored
  const groupInfo = groupInfos.get(stored.position.index)
  if (!groupInfo) throw new Error(`commit ${stored.position.index} has no GroupInfo`)
  return { ...stored, welcome: Buffer.concat([stored.welcome, groupInfo]) }
}
