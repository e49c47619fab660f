/** Channels as rows, the same in SQLite and PostgreSQL. */
import { fromHex, type Mode, toHex } from '@static/protocol'
import type { Time } from '../../ports.ts'
import type { ChannelFields, Ownership } from '../ledger/state.ts'

type OwnershipColumns = readonly [
  account: string,
  mode: Mode,
  owner: Uint8Array,
  guestLimit: number,
  standby: Uint8Array | null,
  ownershipSlot: number | null,
  takenSlot: number | null,
]
type FixedColumns = readonly [id: Uint8Array, name: string, createdAt: Time, ...OwnershipColumns]
export type ChangingColumns = readonly [
  lastIndex: number,
  lastHash: Uint8Array,
  head: number,
  lastAt: Time,
  baseIndex: number,
  baseHash: Uint8Array,
  baseSlot: number,
  bytes: number,
  oldestAt: Time | null,
  guestDay: number,
  guestCount: number,
  unvouchedBytes: number,
  settled: number,
  firstSlot: number,
  slotAt: Time | null,
  hour: number,
  adds: number,
  commitBytes: number,
  due: Time | null,
]
/** A row of `channels`, without its number. */
export type ChannelRow = readonly [...FixedColumns, ...ChangingColumns]

export function readChannel(number: number, row: ChannelRow): ChannelFields {
  const [id, name, createdAt, account, mode, owner, guestLimit, standby, ownershipSlot, takenSlot, ...others] = row
  const [lastIndex, lastHash, head, lastAt, ...state] = others
  const [baseIndex, baseHash, baseSlot, bytes, oldestAt, guestDay, guestCount, ...counts] = state
  const [unvouchedBytes, settled, firstSlot, slotAt, hour, adds, commitBytes, due] = counts
  return {
    number,
    id: toHex(id),
    name,
    createdAt,
    account: { id: account, mode },
    owner: toHex(owner),
    guestLimit,
    standby: standby === null ? undefined : toHex(standby),
    ownershipSlot: ownershipSlot ?? undefined,
    takenSlot: takenSlot ?? undefined,
    last: { index: lastIndex, hash: lastHash, slot: head },
    lastAt,
    base: { index: baseIndex, hash: baseHash, slot: baseSlot },
    bytes,
    oldestAt: oldestAt ?? undefined,
    guestDay,
    guestCount,
    unvouchedBytes,
    settled,
    firstSlot,
    slotAt: slotAt ?? undefined,
    hour,
    adds,
    commitBytes,
    due: due ?? undefined,
  }
}

/** Number of columns of a channel's row that change only with its ownership, or never. They come first. */
export const FIXED_COLUMNS = 10

export function channelRow(channel: ChannelFields): ChannelRow {
  const { id, name, createdAt, last, lastAt, base, bytes, oldestAt, guestDay, guestCount, due } = channel
  const { unvouchedBytes, settled, firstSlot, slotAt, hour, adds, commitBytes } = channel
  return [
    fromHex(id),
    name,
    createdAt,
    ...ownershipColumns(channel),
    last.index,
    last.hash,
    last.slot,
    lastAt,
    base.index,
    base.hash,
    base.slot,
    bytes,
    oldestAt ?? null,
    guestDay,
    guestCount,
    unvouchedBytes,
    settled,
    firstSlot,
    slotAt ?? null,
    hour,
    adds,
    commitBytes,
    due ?? null,
  ]
}

/** The columns that a change of the ownership writes. */
export function ownershipColumns({ account, owner, guestLimit, ...slots }: Ownership): OwnershipColumns {
  const { standby, ownershipSlot, takenSlot } = slots
  return [
    account.id,
    account.mode,
    fromHex(owner),
    guestLimit,
    standby === undefined ? null : fromHex(standby),
    ownershipSlot ?? null,
    takenSlot ?? null,
  ]
}
