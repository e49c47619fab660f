/** One agent's rows in a channel, without the rest of the channel. */
import { toHex } from '@static/protocol'
import type { AgentId, ChannelId } from '../../../ports.ts'
import { damaged } from '../../checksum.ts'
import type { Glance } from '../../ledger/rows/channels.ts'
import { readChannel } from '../../records/channel.ts'
import { Facts } from '../facts.ts'
import { type Transaction, ask, bytea } from '../write.ts'
import { intactChannel, toMember, toSender } from './channel-loader.ts'
import { CHANNEL_COLUMNS, GLANCE, LISTED, MEMBER_COLUMNS } from './channel-statements.ts'

/** The rows that a transaction has read. */
export class Glances {
  readonly #transaction: Transaction
  readonly #facts = new Facts()

  constructor(transaction: Transaction) {
    this.#transaction = transaction
  }

  begin(): void {
    this.#facts.clear()
  }

  get(id: ChannelId, agent: AgentId): Glance | undefined {
    const key = glanceKey(id, agent)
    return this.#facts.need(key, async () => {
      await this.fetch([id], agent)
      return this.#facts.get(key) as Glance | undefined
    })
  }

  /**
   * Throws if an agent that was not found in a channel is on its roster by another index: a damaged index must not make
   * the store deny a membership. Only if nothing is locked: in a transaction that writes, each statement sees a
   * different moment.
   */
  checkAbsent(id: ChannelId, agent: AgentId): void {
    if (this.#transaction.locks) return
    const isListed = this.#facts.need(listedKey(id, agent), async () => (await this.#listed([id], agent)).has(id))
    if (isListed) throw damaged(`the rows of agent ${agent} in channel ${id}`)
  }

  /** Reads what has not been read yet. */
  async fetch(ids: readonly ChannelId[], agent: AgentId): Promise<void> {
    const unknown = ids.filter((id) => !this.#facts.has(glanceKey(id, agent)))
    const found = await this.#read(unknown, agent)
    for (const id of unknown) this.#facts.set(glanceKey(id, agent), found.get(id))
    // All at once: anyone can ask for many channels that do not exist.
    const absent = this.#transaction.locks ? [] : unknown.filter((id) => !found.has(id))
    const listed = await this.#listed(absent, agent)
    for (const id of absent) this.#facts.set(listedKey(id, agent), listed.has(id))
  }

  async #read(ids: readonly ChannelId[], agent: AgentId): Promise<Map<ChannelId, Glance>> {
    const rows = ids.length === 0 ? [] : await ask(this.#transaction, GLANCE, [ids.map(bytea), bytea(agent)])
    return new Map(
      rows.map(([number, ...row]) => {
        const channel = readChannel(number as number, intactChannel(row.slice(0, CHANNEL_COLUMNS)))
        const member = toMember(row.slice(CHANNEL_COLUMNS, CHANNEL_COLUMNS + MEMBER_COLUMNS))
        const sender = row.slice(CHANNEL_COLUMNS + MEMBER_COLUMNS)
        return [channel.id, { channel, member, sender: sender[0] === null ? undefined : toSender(sender) }]
      }),
    )
  }

  async #listed(ids: readonly ChannelId[], agent: AgentId): Promise<ReadonlySet<ChannelId>> {
    const rows = ids.length === 0 ? [] : await ask(this.#transaction, LISTED, [bytea(agent), ids.map(bytea)])
    return new Set(rows.map(([id]) => toHex(id as Uint8Array)))
  }
}

function glanceKey(id: ChannelId, agent: AgentId): string {
  return `glance ${id} ${agent}`
}

function listedKey(id: ChannelId, agent: AgentId): string {
  return `listed ${id} ${agent}`
}
