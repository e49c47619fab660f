/** The names and the number of an account's channels. Creating a channel requires its account's lock (needs.ts). */
import { toHex } from '@static/protocol'
import type { Account, ChannelId } from '../../../ports.ts'
import type { NameRows } from '../../ledger/rows/channels.ts'
import type { Channel } from '../../ledger/state.ts'
import { Facts, Missing } from '../facts.ts'
import { statement } from '../session.ts'
import { type Transaction, ask } from '../write.ts'
import type { ChannelChanges } from './channel-writes.ts'

const NAMED = statement(`SELECT u.account, u.mode, u.name, c.id
  FROM unnest($1::text[], $2::text[], $3::text[]) u (account, mode, name)
  LEFT JOIN channels c ON c.account = u.account AND c.mode = u.mode AND c.name = u.name`)
const COUNT = statement(`SELECT u.account, u.mode,
    (SELECT count(*) FROM channels c WHERE c.account = u.account AND c.mode = u.mode)
  FROM unnest($1::text[], $2::text[]) u (account, mode)`)

/** The name of a channel that is to be created. */
export interface ChannelName {
  readonly account: Account
  readonly name: string
}

export class NameTable implements NameRows {
  readonly #transaction: Transaction
  readonly #changes: () => ChannelChanges
  readonly #facts = new Facts()

  /** `changes`: the channels that the batch has created and deleted so far. */
  constructor(transaction: Transaction, changes: () => ChannelChanges) {
    this.#transaction = transaction
    this.#changes = changes
  }

  begin(): void {
    this.#facts.clear()
  }

  /** The channel that has a name. */
  find(account: Account, name: string): ChannelId | undefined {
    const { created, dropped } = this.#changes()
    const moved = this.#moved()
    for (const channel of [...created.keys(), ...moved]) {
      if (!dropped.has(channel.number) && isOf(channel, account) && channel.name === name) return channel.id
    }
    const key = nameKey(account, name)
    if (!this.#facts.has(key)) throw new Missing(() => this.fetch([{ account, name }]))
    const id = this.#facts.get(key) as ChannelId | undefined
    return [...dropped.values(), ...moved].some((channel) => channel.id === id) ? undefined : id
  }

  /** How many channels an account has. */
  count(account: Account): number {
    const { created, dropped } = this.#changes()
    const stored = this.#facts.get(countKey(account)) as number | undefined
    if (stored === undefined) throw new Missing(() => this.#fetchCounts([account]))
    const own = (channels: Iterable<Pick<Channel, 'account'>>): number =>
      [...channels].filter((each) => isOf(each, account)).length
    const moved = this.#moved()
    const before = moved.flatMap(({ changes: { ownedBefore } }) => (ownedBefore ? [{ account: ownedBefore }] : []))
    return stored + own(created.keys()) + own(moved) - own(dropped.values()) - own(before)
  }

  /** The stored channels that this batch has moved to another account. */
  #moved(): Channel[] {
    const { created, changed, dropped } = this.#changes()
    return [...changed].filter((channel) => {
      const { number, changes } = channel
      return changes.ownedBefore !== undefined && !created.has(channel) && !dropped.has(number)
    })
  }

  /** Reads the channels with these names, and how many channels their accounts have. */
  async fetch(names: readonly ChannelName[]): Promise<void> {
    const unknown = names.filter(({ account, name }) => !this.#facts.has(nameKey(account, name)))
    if (unknown.length === 0) return
    const [accounts, modes] = [unknown.map(({ account }) => account.id), unknown.map(({ account }) => account.mode)]
    const [rows] = await Promise.all([
      ask(this.#transaction, NAMED, [accounts, modes, unknown.map(({ name }) => name)]),
      this.#fetchCounts(unknown.map(({ account }) => account)),
    ])
    for (const [id, mode, name, found] of rows as [string, Account['mode'], string, Uint8Array | null][]) {
      this.#facts.set(nameKey({ id, mode }, name), found === null ? undefined : toHex(found))
    }
  }

  async #fetchCounts(accounts: readonly Account[]): Promise<void> {
    const asked = new Map(accounts.map((account) => [countKey(account), account]))
    const unknown = [...asked].flatMap(([key, account]) => (this.#facts.has(key) ? [] : [account]))
    if (unknown.length === 0) return
    const values = [unknown.map(({ id }) => id), unknown.map(({ mode }) => mode)]
    for (const [id, mode, count] of await ask(this.#transaction, COUNT, values)) {
      this.#facts.set(countKey({ id, mode } as Account), count)
    }
  }
}

function isOf({ account }: Pick<Channel, 'account'>, { id, mode }: Account): boolean {
  return account.id === id && account.mode === mode
}

function nameKey({ id, mode }: Account, name: string): string {
  return `named ${mode} ${id} ${name}`
}

function countKey({ id, mode }: Account): string {
  return `count ${mode} ${id}`
}
