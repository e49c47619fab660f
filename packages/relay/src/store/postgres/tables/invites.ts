/** Invites. A channel's invites are changed only under its lock. */
import type { ChannelId, Invite, Time } from '../../../ports.ts'
import { intact, sealed } from '../../checksum.ts'
import type { InviteRows } from '../../ledger/rows/invites.ts'
import type { Channel } from '../../ledger/state.ts'
import { type InviteRow, inviteRow, readInvite } from '../../records/invite.ts'
import { Facts, Missing, type Table } from '../facts.ts'
import { statement } from '../session.ts'
import { type Transaction, ask, bytea, send } from '../write.ts'

const FIND = statement(`SELECT id, channel, agent, admission_key, expires_at, max_uses, uses, revoked, members,
  box_key, checksum FROM invites WHERE id = ANY($1::text[])`)
const STATES = statement(`SELECT id, expires_at, max_uses, uses, revoked FROM invites
  WHERE channel = $1 ORDER BY changed`)
const USED_UP = statement('SELECT id FROM invites WHERE channel = $1 AND uses >= max_uses')
const PUT = statement(`INSERT INTO invites
    (id, channel, agent, admission_key, expires_at, max_uses, uses, revoked, members, box_key, checksum)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at,
  max_uses = excluded.max_uses, uses = excluded.uses, revoked = excluded.revoked, checksum = excluded.checksum,
  changed = excluded.changed WHERE invites.channel = excluded.channel AND invites.agent = excluded.agent`)
const DROP = statement('DELETE FROM invites WHERE id = ANY($1::text[])')
const DROP_ALL = statement('DELETE FROM invites WHERE channel = ANY($1::bytea[])')
const EXPIRE = statement(`DELETE FROM invites WHERE id IN
  (SELECT id FROM invites WHERE expires_at <= $1 ORDER BY expires_at, changed LIMIT $2 FOR UPDATE SKIP LOCKED)`)

/** The fields that decide whether an invite is open. */
type State = Pick<Invite, 'id' | 'expiresAt' | 'maxUses' | 'uses' | 'revoked'>

export class InviteTable implements InviteRows, Table {
  readonly #transaction: Transaction
  readonly #facts = new Facts()
  /** Null if there is none. */
  readonly #known = new Map<string, Invite | null>()
  /** In the order of the last change. */
  readonly #put = new Map<string, Invite>()
  readonly #dropped = new Set<string>()
  /** The channels of which all invites were dropped; later ones are in `#put`. */
  readonly #droppedChannels = new Set<ChannelId>()
  /** The invites of a channel after the changes of the batch, in the order of their last change. */
  readonly #lists = new Map<ChannelId, Map<string, State>>()
  #expiry: readonly [since: Time, limit: number] | undefined

  constructor(transaction: Transaction) {
    this.#transaction = transaction
  }

  begin(): void {
    this.#facts.clear()
    this.#known.clear()
    this.rewind()
  }

  rewind(): void {
    this.#put.clear()
    this.#dropped.clear()
    this.#droppedChannels.clear()
    this.#lists.clear()
    this.#expiry = undefined
  }

  get(id: string): Invite | undefined {
    const own = this.#put.get(id)
    if (own) return own
    if (this.#dropped.has(id)) return undefined
    const known = this.#known.get(id)
    if (known === undefined) throw new Missing(() => this.fetch([id]))
    return known && !this.#droppedChannels.has(known.channel) ? known : undefined
  }

  put(invite: Invite): void {
    this.#put.delete(invite.id)
    this.#put.set(invite.id, invite)
    this.#dropped.delete(invite.id)
    const list = this.#lists.get(invite.channel)
    list?.delete(invite.id)
    list?.set(invite.id, invite)
  }

  countActive(channel: Channel, now: Time): number {
    let count = 0
    for (const invite of this.#of(channel).values()) if (isActive(invite, now)) count += 1
    return count
  }

  usedUp(channel: ChannelId): readonly string[] {
    const rows = this.#facts.need(`used up ${channel}`, () => ask(this.#transaction, USED_UP, [bytea(channel)]))
    const stored = rows.map(([id]) => id as string).filter((id) => !this.#dropped.has(id) && !this.#put.has(id))
    const own = [...this.#put.values()].filter((each) => each.channel === channel && each.uses >= each.maxUses)
    return [...(this.#droppedChannels.has(channel) ? [] : stored), ...own.map(({ id }) => id)]
  }

  dropEnded(channel: Channel, now: Time, kept: number): readonly string[] {
    const all = this.#of(channel)
    const dropped: string[] = []
    for (const [id, invite] of all) {
      if (all.size <= kept) break
      if (isActive(invite, now)) continue
      all.delete(id)
      this.#put.delete(id)
      this.#dropped.add(id)
      dropped.push(id)
    }
    return dropped
  }

  dropAll({ id }: Channel): void {
    this.#droppedChannels.add(id)
    this.#lists.set(id, new Map())
    for (const invite of this.#put.values()) {
      if (invite.channel !== id) continue
      this.#put.delete(invite.id)
      this.#dropped.add(invite.id)
    }
  }

  expire(since: Time, limit: number): void {
    this.#expiry = [since, limit]
  }

  /** Reads invites that are not known, or all of them again once their channels are locked. */
  async fetch(ids: readonly string[], again = false): Promise<void> {
    const asked = again ? ids : ids.filter((id) => !this.#known.has(id))
    if (asked.length === 0) return
    const rows = await ask(this.#transaction, FIND, [asked])
    for (const id of asked) this.#known.set(id, null)
    for (const row of rows) {
      const invite = readInvite(intact(row, `invite ${String(row[0])}`) as InviteRow)
      this.#known.set(invite.id, invite)
    }
  }

  /** The channel of a known invite. */
  channelOf(id: string): ChannelId | undefined {
    return this.#known.get(id)?.channel
  }

  write(): void {
    if (this.#droppedChannels.size > 0) send(this.#transaction, DROP_ALL, [[...this.#droppedChannels].map(bytea)])
    if (this.#dropped.size > 0) send(this.#transaction, DROP, [[...this.#dropped]])
    for (const invite of this.#put.values()) send(this.#transaction, PUT, sealed(inviteRow(invite)))
    if (this.#expiry) send(this.#transaction, EXPIRE, this.#expiry)
  }

  #of({ id: channel }: Channel): Map<string, State> {
    const known = this.#lists.get(channel)
    if (known) return known
    const rows = this.#facts.need(`of ${channel}`, () => ask(this.#transaction, STATES, [bytea(channel)]))
    const list = new Map(rows.map((row) => [row[0] as string, toState(row as StateRow)]))
    for (const id of this.#dropped) list.delete(id)
    for (const invite of this.#put.values()) {
      if (invite.channel !== channel) continue
      list.delete(invite.id)
      list.set(invite.id, invite)
    }
    this.#lists.set(channel, list)
    return list
  }
}

type StateRow = [id: string, expiresAt: Time, maxUses: number, uses: number, revoked: number]

function toState([id, expiresAt, maxUses, uses, revoked]: StateRow): State {
  return { id, expiresAt, maxUses, uses, revoked: revoked === 1 }
}

function isActive({ revoked, expiresAt, uses, maxUses }: State, now: Time): boolean {
  return !revoked && expiresAt > now && uses < maxUses
}
