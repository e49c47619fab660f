/** Pending Welcomes and the GroupInfos they share, in SQLite. */
import { fromHex } from '@static/protocol'
import type { AgentId, StoredWelcome, Time } from '../../../ports.ts'
import { checksum, intact, sealed } from '../../checksum.ts'
import type { DroppedWelcome, NewWelcome, WelcomeRows } from '../../ledger/rows/welcomes.ts'
import type { Channel } from '../../ledger/state.ts'
import { fromJson, toJson } from '../../records/json.ts'
import { type Statements, iterate } from '../statements.ts'

type WelcomeRow = [channel: number, shared: number | null, record: string, secrets: Uint8Array]
type DroppedRow = [bytes: number, shared: number | null]

/** The Welcomes of an open database. */
export class SqliteWelcomeRows implements WelcomeRows {
  readonly #statements: Statements

  constructor(statements: Statements) {
    this.#statements = statements
  }

  get(sequence: number): StoredWelcome {
    const row = this.#statements.welcome.get(sequence)
    const [channel, shared, record, secrets] = intact(row, `Welcome ${sequence}`) as WelcomeRow
    const welcome = shared === null ? secrets : Buffer.concat([secrets, this.#groupInfo(channel, shared)])
    return { ...(fromJson(record) as Omit<StoredWelcome, 'welcome' | 'sequence'>), welcome, sequence }
  }

  put({ number, account }: Channel, { welcome, shares, ...record }: NewWelcome, at: Time): void {
    const place = [number, fromHex(record.agent), account.id, account.mode, at] as const
    const shared = shares ? record.position.index : null
    const row = [shared, toJson(record), welcome] as const
    this.#statements.putWelcome.run(...place, ...row, checksum([number, ...row]))
  }

  drop({ number }: Channel, agent: AgentId): DroppedWelcome | undefined {
    const row = this.#statements.dropWelcome.get(number, fromHex(agent)) as unknown as DroppedRow | undefined
    return row && { bytes: row[0], shared: row[1] ?? undefined }
  }

  putGroupInfo({ number }: Channel, index: number, groupInfo: Uint8Array): void {
    this.#statements.putGroupInfo.run(...sealed([number, index, groupInfo]))
  }

  dropGroupInfo({ number }: Channel, index: number): number {
    const row = this.#statements.dropGroupInfo.get(number, index) as unknown as [number] | undefined
    return row?.[0] ?? 0
  }

  count({ number, account }: Channel, agent: AgentId): number {
    const row = this.#statements.countWelcomes.get(fromHex(agent), account.id, account.mode, number)
    return (row as unknown as [number])[0]
  }

  *of(agent: AgentId, after: number): Iterable<{ readonly sequence: number; readonly size: number }> {
    for (const row of iterate(this.#statements.welcomesOf, fromHex(agent), after)) {
      const [sequence, size] = row as [number, number]
      yield { sequence, size }
    }
  }

  #groupInfo(channel: number, index: number): Uint8Array {
    const row = this.#statements.groupInfo.get(channel, index)
    return (intact(row, `the GroupInfo of commit ${index}`) as [number, number, Uint8Array])[2]
  }
}
