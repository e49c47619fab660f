/**
 * Remains of deleted channels: deleted gradually by any node's sweep. Their ids are dropped with those of their day.
 */
import { statement } from './session.ts'
import { type Transaction, ask } from './write.ts'

/** How much one sweep deletes: channels, and rows of each table. */
const MAX_CHANNELS = 64
const MAX_ROWS = 2048

const FIRST = statement('SELECT channel FROM dropped ORDER BY channel LIMIT $1 FOR UPDATE SKIP LOCKED')
const PURGES = [
  ['entries', 'channel, index'],
  ['welcomes', 'sequence'],
  ['group_infos', 'channel, entry'],
  ['turns', 'channel, agent, entry'],
  ['slots', 'channel, slot'],
  ['senders', 'channel, agent'],
].map(([table, key]) =>
  statement(`DELETE FROM ${table} WHERE (${key}) IN
    (SELECT ${key} FROM ${table} WHERE channel = ANY($1::bigint[]) LIMIT $2) RETURNING channel`),
)
const FORGET = statement('DELETE FROM dropped WHERE channel = ANY($1::bigint[])')

/** Deletes some of them. The account gets the bytes back once everything is deleted. Returns whether there were any. */
export async function purgeDropped(transaction: Transaction): Promise<boolean> {
  const channels = (await ask(transaction, FIRST, [MAX_CHANNELS])).map(([channel]) => channel as number)
  if (channels.length === 0) return false
  const deleted = await Promise.all(PURGES.map((purge) => ask(transaction, purge, [channels, MAX_ROWS])))
  if (deleted.every(({ length }) => length < MAX_ROWS)) await ask(transaction, FORGET, [channels])
  return true
}
