/** The one statement that stores messages: their entries, ids, channels and senders. */
import type { Channel } from '../ledger/state.ts'
import { statement } from './session.ts'
import type { ChannelChanges } from './tables/channel-writes.ts'
import { hotRows } from './tables/channel-writes.ts'
import type { IdTable } from './tables/ids.ts'
import type { LogTable } from './tables/log.ts'
import { Blob, type Transaction, columns, send } from './write.ts'

const CHANNEL_COLUMNS = 20
const ENTRY_COLUMNS = 14
const ID_COLUMNS = 7
const SENDER_COLUMNS = 12

const WRITE = statement(`
  WITH c AS (UPDATE channels SET last_index = u.last_index, last_hash = substr($1::bytea, u.last_hash, 32),
      head = u.head, base_index = u.base_index, base_hash = substr($1, u.base_hash, 32), base_slot = u.base_slot,
      bytes = u.bytes, oldest_at = u.oldest_at, guest_day = u.guest_day, guest_count = u.guest_count,
      owner_commit = u.owner_commit, settled = u.settled, first_slot = u.first_slot, slot_at = u.slot_at,
      hour = u.hour, adds = u.adds, commit_bytes = u.commit_bytes, due = u.due, checksum = u.checksum,
      version = version + 1
    FROM unnest($2::bigint[], $3::bigint[], $4::int[], $5::bigint[], $6::bigint[], $7::int[], $8::bigint[],
      $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[],
      $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[])
      u (number, last_index, last_hash, head, base_index, base_hash, base_slot, bytes, oldest_at, guest_day,
      guest_count, owner_commit, settled, first_slot, slot_at, hour, adds, commit_bytes, due, checksum)
    WHERE channels.number = u.number),
  e AS (INSERT INTO entries SELECT channel, index, kind, slot, at, counter, control, substr($1, sender, 32),
      substr($1, message_id, id_length), substr($1, hash, 32), checksum, substr($1, body, length)
    FROM unnest($22::bigint[], $23::bigint[], $24::int[], $25::bigint[], $26::bigint[], $27::bigint[], $28::int[],
      $29::int[], $30::int[], $31::int[], $32::int[], $33::bigint[], $34::int[], $35::int[])
      u (channel, index, kind, slot, at, counter, control, sender, message_id, id_length, hash, checksum, body, length)),
  i AS (INSERT INTO ids SELECT channel, substr($1, key, length), entry, head, at, checksum
    FROM unnest($36::bigint[], $37::int[], $38::int[], $39::bigint[], $40::bigint[], $41::bigint[], $42::bigint[])
      u (channel, key, length, entry, head, at, checksum))
  INSERT INTO senders SELECT channel, substr($1, agent, 32), counter, barred, acted, seen, hour, free, commit_bytes,
      bytes, entries, checksum
    FROM unnest($43::bigint[], $44::int[], $45::bigint[], $46::int[], $47::int[], $48::bigint[], $49::bigint[],
      $50::bigint[], $51::bigint[], $52::bigint[], $53::bigint[], $54::bigint[])
      u (channel, agent, counter, barred, acted, seen, hour, free, commit_bytes, bytes, entries, checksum)
    ON CONFLICT (channel, agent) DO UPDATE SET counter = excluded.counter, barred = excluded.barred,
      acted = excluded.acted, seen = excluded.seen, hour = excluded.hour, free = excluded.free,
      commit_bytes = excluded.commit_bytes, bytes = excluded.bytes, entries = excluded.entries,
      checksum = excluded.checksum`)

/** Sends it, if there is anything to store. */
export function writeHot(
  transaction: Transaction,
  changes: ChannelChanges,
  { log, ids }: { readonly log: LogTable; readonly ids: IdTable },
): void {
  const blob = new Blob()
  const isLive = ({ number }: Channel): boolean => !changes.dropped.has(number)
  const { channels, senders } = hotRows(blob, changes)
  const entries = log.rows(blob, isLive)
  const added = ids.rows(blob, isLive)
  if (channels.length + senders.length + entries.length + added.length === 0) return
  send(transaction, WRITE, [
    blob.finish(),
    ...columns(channels, CHANNEL_COLUMNS),
    ...columns(entries, ENTRY_COLUMNS),
    ...columns(added, ID_COLUMNS),
    ...columns(senders, SENDER_COLUMNS),
  ])
}
