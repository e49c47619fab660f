/** Channels, their names and their accounts as maps. */
import {
  type Account,
  type AccountRecord,
  type AccountRows,
  type AgentId,
  type Behind,
  type Channel,
  type ChannelId,
  type ChannelRows,
  findMember,
  type Glance,
  type Head,
  type MemberReceipt,
  type NameRows,
  type NewChannel,
  newAccount,
  newChannel,
  type Owned,
  type OwnedRows,
  onRoster,
  receiptsOf,
} from '@static/relay/internal'
import { allChannels, keptOf, type MemoryState } from './relay-memory-state.ts'

/** All channels, in memory. */
export class MemoryChannelRows implements ChannelRows {
  readonly #state: MemoryState

  constructor(state: MemoryState) {
    this.#state = state
  }

  get(id: ChannelId): Channel | undefined {
    return this.#state.channels.get(id)?.channel
  }

  glance(id: ChannelId, agent: AgentId): Glance | undefined {
    const channel = this.get(id)
    const member = channel && findMember(channel, agent)
    return member && { channel, member, sender: channel.senders.get(agent) }
  }

  heads(ids: readonly ChannelId[]): readonly Head[] {
    return ids.flatMap((channel) => {
      const last = this.get(channel)?.last
      return last ? { channel, index: last.index, slot: last.slot } : []
    })
  }

  receipts(id: ChannelId, agent: AgentId, limit: number): readonly MemberReceipt[] {
    const channel = this.get(id)
    return channel ? receiptsOf(channel, agent, limit) : []
  }

  of(agent: AgentId, after: ChannelId | undefined, limit: number): readonly ChannelId[] {
    return allChannels(this.#state)
      .filter(({ id, members }) => onRoster(members.get(agent)) && (after === undefined || id > after))
      .map(({ id }) => id)
      .sort()
      .slice(0, limit)
  }

  add(fields: NewChannel, welcome: Uint8Array): Channel {
    const channel = newChannel(++this.#state.lastNumber, fields)
    this.#state.channels.set(channel.id, {
      channel,
      founding: welcome,
      log: new Map(),
      ids: new Map(),
      welcomes: new Map(),
      groupInfos: new Map(),
      slots: new Map(),
      turns: [],
    })
    return channel
  }

  founding(channel: Channel): Uint8Array {
    return keptOf(this.#state, channel).founding
  }

  /** Records are changed in place. */
  changed(): void {}
}

/** The names of all channels, in memory. */
export class MemoryNameRows implements NameRows {
  readonly #state: MemoryState

  constructor(state: MemoryState) {
    this.#state = state
  }

  find(account: Account, name: string): ChannelId | undefined {
    return channelsOwnedBy(this.#state, account).find((channel) => channel.name === name)?.id
  }

  count(account: Account): number {
    return channelsOwnedBy(this.#state, account).length
  }
}

/** All accounts, in memory. */
export class MemoryAccountRows implements AccountRows {
  readonly #state: MemoryState

  constructor(state: MemoryState) {
    this.#state = state
  }

  get(account: Account): AccountRecord {
    const { accounts } = this.#state
    const key = `${account.mode} ${account.id}`
    const record = accounts.get(key) ?? newAccount(account)
    accounts.set(key, record)
    return record
  }

  put(): void {}
}

/** The channels that accounts see. */
export class MemoryOwnedRows implements OwnedRows {
  readonly #state: MemoryState

  constructor(state: MemoryState) {
    this.#state = state
  }

  list(account: string, skip: number, limit: number): { readonly total: number; readonly channels: readonly Owned[] } {
    const all = allChannels(this.#state)
      .filter((channel) => channel.account.id === account)
      .map(({ number, id, name, owner, createdAt, lastAt, senders, last, account: { mode } }) => {
        const logBytes = [...senders.values()].reduce((sum, { bytes }) => sum + bytes, 0)
        return { number, id, name, owner, createdAt, lastAt, logBytes, mode, lastIndex: last.index }
      })
      .sort((one, other) => (`${one.mode} ${one.name}` < `${other.mode} ${other.name}` ? -1 : 1))
    return { total: all.length, channels: all.slice(skip, skip + limit) }
  }

  furthestBehind({ id }: Pick<Owned, 'id'>, limit: number): Behind {
    const roster = [...(this.#state.channels.get(id)?.channel.members.values() ?? [])].filter(onRoster)
    const members = roster
      .map(({ agent, cursor }) => ({ agent, cursor: cursor.index }))
      .sort((one, other) => one.cursor - other.cursor || (one.agent < other.agent ? -1 : 1))
    return { count: members.length, members: members.slice(0, limit) }
  }
}

/** The channels of an account in one mode. */
export function channelsOwnedBy(state: MemoryState, { id, mode }: Account): Channel[] {
  return allChannels(state).filter(({ account }) => account.id === id && account.mode === mode)
}
