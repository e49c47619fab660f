/** The statements that read channels, members and senders. */
import { type Statement, statement } from '../session.ts'

const CHANNEL = `c.id, c.name, c.created_at, c.account, c.mode, c.owner, c.guest_limit, c.standby, c.ownership_slot, c.taken_slot,
  c.last_index, c.last_hash, c.head, c.last_at,
  c.base_index, c.base_hash, c.base_slot, c.bytes, c.oldest_at, c.guest_day, c.guest_count, c.unvouched_bytes, c.settled,
  c.first_slot, c.slot_at, c.hour, c.adds, c.commit_bytes, c.due, c.checksum`
const MEMBER = `m.channel_id, m.agent, m.added, m.sponsor, m.vouched, m.welcomed, m.cursor_index, m.cursor_hash, m.cursor_slot,
  m.receipt, m.welcome, m.earlier, m.ended_index, m.ended_hash, m.ended_slot, m.ended_at, m.notice, m.pending, m.checksum`
const SENDER = `s.agent, s.counter, s.barred, s.acted, s.seen, s.hour, s.free, s.commit_bytes, s.bytes, s.entries,
  s.checksum`
const END = 'e.index, e.kind, e.slot, e.at, e.counter, e.control, e.sender, e.message_id, e.hash, e.checksum'
export const READ: Statement = statement(
  `SELECT c.number, c.version, ${CHANNEL} FROM channels c WHERE id = ANY($1::bytea[])`,
)
export const LOCK: Statement =
  statement(`SELECT c.number, c.version, ${CHANNEL} FROM channels c WHERE id = ANY($1::bytea[])
  ORDER BY id FOR UPDATE`)
export const MEMBERS: Statement = statement(
  `SELECT m.channel, ${MEMBER} FROM members m WHERE m.channel = ANY($1::bigint[])`,
)
const NUMBERED = `ANY(ARRAY(SELECT number FROM channels WHERE id = ANY($1::bytea[])))`
/** Members, senders and last entries of channels, by the ids of these. */
export const PARTS: readonly [Statement, Statement, Statement] = [
  statement(`SELECT m.channel, ${MEMBER} FROM members m WHERE m.channel = ${NUMBERED}`),
  statement(`SELECT s.channel, ${SENDER} FROM senders s WHERE s.channel = ${NUMBERED}`),
  statement(`SELECT e.channel, ${END}
    FROM channels c JOIN entries e ON e.channel = c.number AND e.index = c.last_index WHERE c.id = ANY($1::bytea[])`),
]
/** Channels with their last entries as they were at one moment, without a lock. */
export const READ_ENDS: Statement = statement(`SELECT c.number, c.version, ${CHANNEL}, ${END}
  FROM channels c LEFT JOIN entries e ON e.channel = c.number AND e.index = c.last_index WHERE c.id = ANY($1::bytea[])`)
export const ACTING: Statement =
  statement(`SELECT m.channel, ${MEMBER} FROM unnest($1::bytea[], $2::bytea[]) u (id, agent)
  JOIN channels c ON c.id = u.id JOIN members m ON m.channel = c.number AND m.agent = u.agent`)
export const GLANCE: Statement =
  statement(`SELECT c.number, ${CHANNEL}, ${MEMBER}, ${SENDER} FROM unnest($1::bytea[]) u (id)
  JOIN channels c ON c.id = u.id JOIN members m ON m.channel = c.number AND m.agent = $2
  LEFT JOIN senders s ON s.channel = c.number AND s.agent = $2`)
/** Numbers of columns in GLANCE and READ_ENDS. */
export const CHANNEL_COLUMNS = 30
export const MEMBER_COLUMNS = 19
export const OF_AGENT: Statement = statement(`SELECT channel_id FROM members
  WHERE agent = $1 AND channel_id > $2 AND ended_index IS NULL AND welcomed = 1 ORDER BY channel_id LIMIT $3`)
/** Which of some channels have an agent on their roster, by the same index as `OF_AGENT`. */
export const LISTED: Statement = statement(`SELECT channel_id FROM members
  WHERE agent = $1 AND channel_id = ANY($2::bytea[]) AND ended_index IS NULL AND welcomed = 1`)
export const HEADS: Statement = statement('SELECT id, last_index, head FROM channels WHERE id = ANY($1::bytea[])')
export const DUE: Statement = statement(
  `SELECT id FROM channels WHERE (due <= $1 OR acked) AND id <> ALL($3::bytea[]) ORDER BY due LIMIT $2
    FOR UPDATE SKIP LOCKED`,
)
export const NUMBERS: Statement = statement(
  `SELECT nextval(pg_get_serial_sequence('channels', 'number')) FROM generate_series(1, $1::int)`,
)
export const FOUNDING: Statement = statement('SELECT welcome, checksum FROM foundings WHERE channel = $1')
