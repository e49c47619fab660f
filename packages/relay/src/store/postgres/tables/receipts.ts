/** The last receipts of members. They are columns of `members`, which are written with cursors. */
import { MAX_MEMBERS, toHex } from '@static/protocol'
import type { AgentId, ChannelId, MemberReceipt } from '../../../ports.ts'
import { type Channel, receiptsOf } from '../../ledger/state.ts'
import { Facts } from '../facts.ts'
import { statement } from '../session.ts'
import { type Transaction, ask, bytea } from '../write.ts'

const READ = statement(`SELECT u.id, r.agent, r.receipt FROM unnest($1::bytea[]) u (id) JOIN channels c ON c.id = u.id
  CROSS JOIN LATERAL (SELECT m.agent, m.receipt FROM members m WHERE m.channel = c.number AND m.agent <> $2
    AND m.receipt IS NOT NULL AND m.ended_index IS NULL AND m.welcomed = 1
    ORDER BY m.cursor_index DESC LIMIT $3) r`)

export class ReceiptReads {
  readonly #transaction: Transaction
  readonly #facts = new Facts()

  constructor(transaction: Transaction) {
    this.#transaction = transaction
  }

  begin(): void {
    this.#facts.clear()
  }

  /** Stored receipts, with those that this batch has changed. Cached ones may be older. */
  of(id: ChannelId, agent: AgentId, limit: number, channel: Channel | undefined): readonly MemberReceipt[] {
    const stored = this.#facts.need(keyOf(id, agent, limit), async () => {
      return (await this.#read([id], agent, limit)).get(id) ?? []
    })
    if (!channel || channel.changes.members.size === 0) return stored
    const { members } = channel.changes
    const changed = receiptsOf(channel, agent, MAX_MEMBERS).filter((each) => members.has(each.agent))
    return [...changed, ...stored.filter((each) => !members.has(each.agent))].slice(0, limit)
  }

  /** Reads the receipts of many channels at once. */
  async fetch(ids: readonly ChannelId[], agent: AgentId, limit: number): Promise<void> {
    const unknown = ids.filter((id) => !this.#facts.has(keyOf(id, agent, limit)))
    if (limit === 0 || unknown.length === 0) return
    const found = await this.#read(unknown, agent, limit)
    for (const id of unknown) this.#facts.set(keyOf(id, agent, limit), found.get(id) ?? [])
  }

  async #read(
    ids: readonly ChannelId[],
    agent: AgentId,
    limit: number,
  ): Promise<ReadonlyMap<ChannelId, MemberReceipt[]>> {
    const found = new Map<ChannelId, MemberReceipt[]>()
    for (const row of await ask(this.#transaction, READ, [ids.map(bytea), bytea(agent), limit])) {
      const [channel, of, receipt] = row as [Uint8Array, Uint8Array, Uint8Array]
      const id = toHex(channel)
      const known = found.get(id)
      if (known) known.push({ agent: toHex(of), receipt })
      else found.set(id, [{ agent: toHex(of), receipt }])
    }
    return found
  }
}

function keyOf(id: ChannelId, agent: AgentId, limit: number): string {
  return `${id} ${agent} ${limit}`
}
