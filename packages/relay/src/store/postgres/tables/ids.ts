/** Ids of messages and commits. A channel's ids are changed only under its lock. */
import { fromHex } from '@static/protocol'
import type { ChannelId, Time } from '../../../ports.ts'
import { intact, sealed } from '../../checksum.ts'
import type { Answered, IdKey, IdRows } from '../../ledger/rows/ids.ts'
import type { Channel } from '../../ledger/state.ts'
import { KINDS } from '../../records/entry.ts'
import { Missing, type Table } from '../facts.ts'
import type { HotId } from '../hot-rows.ts'
import { statement } from '../session.ts'
import { type Transaction, ask } from '../write.ts'

// One row per id: the newest, because an expired one may still be there.
const FIND = statement(`
  SELECT DISTINCT ON (u.at) u.at, i.channel, i.key, i.entry, i.head, i.at, i.checksum
  FROM (SELECT at, substr($1::bytea, at, 16) AS id, substr($1::bytea, at + 16, length) AS key
    FROM unnest($2::int[], $3::int[]) u (at, length)) u
  JOIN channels c ON c.id = u.id JOIN ids i ON i.channel = c.number AND i.key = u.key
  ORDER BY u.at, i.at DESC`)

type StoredAnswer = Answered & { readonly at: Time }

/** An id as stored. `number` is its channel's number: a deleted channel may have had the same id. */
interface KnownId extends StoredAnswer {
  readonly number: number
}

/** An id in a channel. */
export interface ChannelIdKey {
  readonly channel: ChannelId
  readonly key: IdKey
}

export class IdTable implements IdRows, Table {
  readonly #transaction: Transaction
  /** Null if there is none. */
  readonly #known = new Map<string, KnownId | null>()
  readonly #added = new Map<
    string,
    { readonly channel: Channel; readonly key: Buffer; readonly answer: StoredAnswer }
  >()
  #expired: Time | undefined

  constructor(transaction: Transaction) {
    this.#transaction = transaction
  }

  /** Ids from before this time may be deleted, if a sweep has asked for it. */
  get expired(): Time | undefined {
    return this.#expired
  }

  begin(): void {
    this.#known.clear()
    this.#added.clear()
    this.#expired = undefined
  }

  rewind(): void {
    this.#added.clear()
  }

  find(channel: Channel, key: IdKey, since: Time, text: string = textOf(channel.id, key)): Answered | undefined {
    const added = this.#added.get(text)
    const answer = added?.channel.number === channel.number ? added.answer : this.#stored(channel, key, text)
    return answer && answer.at > since ? { index: answer.index, head: answer.head } : undefined
  }

  add(channel: Channel, key: IdKey, answer: StoredAnswer, since: Time): Answered | undefined {
    const bytes = keyBytes(key)
    const text = channel.id + bytes.toString('latin1')
    const known = this.find(channel, key, since, text)
    if (!known) this.#added.set(text, { channel, key: bytes, answer })
    return known
  }

  expire(since: Time): void {
    this.#expired = since
  }

  /** Assumes that ids are new; the statement that stores them checks it. */
  assumeNew(asked: readonly ChannelIdKey[]): void {
    for (const { channel, key } of asked) this.#known.set(textOf(channel, key), null)
  }

  /** Reads ids that are not known. */
  async fetch(asked: readonly ChannelIdKey[]): Promise<void> {
    const unknown = asked.filter(({ channel, key }) => !this.#known.has(textOf(channel, key)))
    if (unknown.length === 0) return
    const parts = unknown.map(({ channel, key }) => Buffer.concat([fromHex(channel), keyBytes(key)]))
    const starts = new Map<number, string>()
    let at = 1
    for (const [place, { channel, key }] of unknown.entries()) {
      const text = textOf(channel, key)
      starts.set(at, text)
      this.#known.set(text, null)
      at += parts[place]?.length ?? 0
    }
    const lengths = parts.map(({ length }) => length - 16)
    const rows = await ask(this.#transaction, FIND, [Buffer.concat(parts), [...starts.keys()], lengths])
    for (const [start, ...row] of rows) {
      const [number, , index, head, stored] = intact(row, 'a message id') as [number, Uint8Array, number, number, Time]
      this.#known.set(starts.get(start as number) ?? '', { number, index, head, at: stored })
    }
  }

  write(): void {}

  /** The rows of the added ids. */
  rows(isLive: (channel: Channel) => boolean): readonly HotId[] {
    return [...this.#added.values()]
      .filter(({ channel }) => isLive(channel))
      .map(({ channel: { number }, key, answer: { index, head, at } }) => sealed([number, key, index, head, at]))
  }

  #stored({ id, number }: Channel, key: IdKey, text: string): StoredAnswer | undefined {
    const known = this.#known.get(text)
    if (known === undefined) throw new Missing(() => this.fetch([{ channel: id, key }]))
    return known?.number === number ? known : undefined
  }
}

/** Eight bytes of the agent id are enough, as in SQLite (keys.ts). */
function keyBytes({ kind, agent, id }: IdKey): Buffer {
  const key = Buffer.allocUnsafe(9 + id.length)
  key[0] = KINDS.indexOf(kind)
  key.write(agent, 1, 8, 'hex')
  key.set(id, 9)
  return key
}

function textOf(channel: ChannelId, key: IdKey): string {
  return channel + keyBytes(key).toString('latin1')
}
