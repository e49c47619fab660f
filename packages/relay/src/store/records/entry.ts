/** Entries as rows, the same in SQLite and PostgreSQL. The hash chain covers the body, the checksum everything else. */
import { chainNext, type Hash, toHex } from '@static/protocol'
import type { Entry, Position, Time } from '../../ports.ts'
import { damaged, intact } from '../checksum.ts'
import { readCommitBody, readLeaveBody } from '../ledger/log/entry-body.ts'

/** A row of `entries` without the body, with the index for its key. */
export type HeaderRow = readonly [
  index: number,
  kind: number,
  slot: number,
  at: Time,
  counter: number,
  control: 0 | 1,
  sender: Uint8Array,
  messageId: Uint8Array,
  hash: Uint8Array,
]

/** An entry's kind is stored as its index here. */
export const KINDS = ['message', 'commit', 'leave'] as const

const NOTHING = new Uint8Array()

/** The header of an entry's row. */
export function headerRow(entry: Entry, sender: Uint8Array): HeaderRow {
  const message = entry.kind === 'message'
  return [
    entry.index,
    KINDS.indexOf(entry.kind),
    entry.slot,
    entry.at,
    message ? entry.counter : 0,
    message && entry.control ? 1 : 0,
    sender,
    entry.kind === 'leave' ? NOTHING : entry.messageId,
    entry.hash,
  ]
}

/** The log position after an entry, from the header of its row, with its checksum. */
export function readPosition(row: unknown, index: number): Position {
  const [at, kind, slot, , , , , , hash] = intact(row, `entry ${index}`) as HeaderRow
  if (at !== index) throw damaged(`entry ${index}`)
  return { index, hash, slot: KINDS[kind] === 'commit' ? slot + 1 : slot }
}

/** The entry after a position, from its row. */
export interface ReadEntry {
  readonly entry: Entry
  /** After the entry. */
  readonly position: Position
  /** The length of its body. */
  readonly size: number
}

/** Reads the entry after a position. Throws if the hash chain does not match. */
export function readEntry(hash: Hash, previous: Position, row: unknown): ReadEntry {
  const header = [...(row as readonly (number | Uint8Array)[])]
  const body = header.pop() as Uint8Array
  const expected = previous.index + 1
  const position = readPosition(header, expected)
  const [index, kind, slot, at, counter, control, sender, messageId] = header as unknown as HeaderRow
  const name = KINDS[kind]
  if (name === undefined || slot !== previous.slot) throw damaged(`entry ${expected}`)
  const link = chainNext(hash, previous.hash, { kind: name, sender, messageId, bodyHash: hash(body) })
  if (!isEqual(link, position.hash)) throw damaged(`entry ${expected}`)
  const common = { index, hash: position.hash, slot, sender: toHex(sender), at }
  const content = (): Entry => {
    if (name === 'commit') return { ...common, kind: name, messageId, ...readCommitBody(body) }
    if (name === 'leave') return { ...common, kind: name, notice: readLeaveBody(body) }
    return { ...common, kind: name, messageId, counter, control: control === 1, ciphertext: body }
  }
  return { entry: content(), position, size: body.length }
}

/** Whether two hashes are equal. */
export function isEqual(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}
