/** The rows of an in-memory store. Records are changed in place, so nothing needs to be written. */
import type { Channel, ChannelId, DueRows, OldWelcome, Rows, Time } from '@static/relay/internal'
import { MemoryAccountRows, MemoryChannelRows, MemoryNameRows, MemoryOwnedRows } from './relay-memory-channels.ts'
import { MemoryFileRows } from './relay-memory-files.ts'
import { MemoryInviteRows } from './relay-memory-invites.ts'
import { MemoryIdRows, MemoryLogRows } from './relay-memory-log.ts'
import { MemorySlotRows } from './relay-memory-slots.ts'
import { allChannels, emptyState, type MemoryState } from './relay-memory-state.ts'
import { MemoryTransientRows } from './relay-memory-transient.ts'
import { MemoryWelcomeRows } from './relay-memory-welcomes.ts'

/** All rows, in memory. */
export class MemoryRows implements Rows {
  readonly channels: MemoryChannelRows
  readonly names: MemoryNameRows
  readonly accounts: MemoryAccountRows
  readonly log: MemoryLogRows
  readonly slots: MemorySlotRows
  readonly ids: MemoryIdRows
  readonly welcomes: MemoryWelcomeRows
  readonly invites: MemoryInviteRows
  readonly files: MemoryFileRows
  readonly transient: MemoryTransientRows
  readonly owned: MemoryOwnedRows
  readonly due: MemoryDueRows
  readonly #state: MemoryState

  constructor(
    state: MemoryState = emptyState(),
    invites: MemoryInviteRows = new MemoryInviteRows(),
    transient: MemoryTransientRows = new MemoryTransientRows(),
  ) {
    this.channels = new MemoryChannelRows(state)
    this.names = new MemoryNameRows(state)
    this.accounts = new MemoryAccountRows(state)
    this.log = new MemoryLogRows(state)
    this.slots = new MemorySlotRows(state)
    this.ids = new MemoryIdRows(state)
    this.welcomes = new MemoryWelcomeRows(state)
    this.invites = invites
    this.files = new MemoryFileRows(state)
    this.transient = transient
    this.owned = new MemoryOwnedRows(state)
    this.due = new MemoryDueRows(state)
    this.#state = state
  }

  /** A copy that changes on its own. */
  copy(): MemoryRows {
    return new MemoryRows(structuredClone(this.#state), this.invites.copy(), this.transient.copy())
  }

  settle(): void {}

  dropChannel({ id, number, account, bytes }: Channel): void {
    this.#state.dropped.push({ account, bytes })
    this.#state.channels.delete(id)
    this.files.endAll({ number })
    this.invites.dropAll({ id })
  }

  purge(): void {
    for (const { account, bytes } of this.#state.dropped.splice(0)) this.accounts.get(account).bytes -= bytes
  }
}

/** The rows that the sweep works on. */
class MemoryDueRows implements DueRows {
  readonly #state: MemoryState

  constructor(state: MemoryState) {
    this.#state = state
  }

  channels(now: Time, limit: number): readonly ChannelId[] {
    return allChannels(this.#state)
      .filter(({ due }) => due !== undefined && due <= now)
      .slice(0, limit)
      .map(({ id }) => id)
  }

  welcomes(since: Time, limit: number): readonly OldWelcome[] {
    return [...this.#state.channels.values()]
      .flatMap(({ welcomes }) => [...welcomes.values()])
      .filter(({ at }) => at <= since)
      .sort((one, other) => one.at - other.at || one.welcome.sequence - other.welcome.sequence)
      .slice(0, limit)
      .map(({ welcome }) => ({ channel: welcome.channel, agent: welcome.agent }))
  }
}
