/**
 * Finds out whether a transaction was committed whose connection ended before its COMMIT was answered. The stamp of an
 * entry that it appended shows that. Its hash would not: the sender may have retried the message at another node, where
 * it took the same place without the rest of the transaction.
 */
import { type Session, statement } from './session.ts'

// Waits for the transaction if it is still running, because that also locks the channel.
const LOCK = statement('SELECT last_index, base_index FROM channels WHERE number = $1 FOR UPDATE')
const FIND = statement('SELECT stamp FROM entries WHERE channel = $1 AND index = $2')

/** An entry that a transaction appends. */
export interface Proof {
  /** The number of its channel. */
  readonly channel: number
  readonly index: number
  readonly stamp: number
}

/** Returns undefined if it is no longer known: the entry may have been stored and since deleted. */
export async function wasCommitted(session: Session, proof: Proof): Promise<boolean | undefined> {
  try {
    await session.run('BEGIN')
    const result = await find(session, proof)
    // The wait for the standby may have ended with the connection. This COMMIT waits for everything committed before
    // it.
    await session.run('COMMIT')
    return result
  } catch (error) {
    await session.run('ROLLBACK').catch(() => session.end())
    throw error
  }
}

async function find(session: Session, { channel, index, stamp }: Proof): Promise<boolean | undefined> {
  const [row] = await session.rows(LOCK, [channel])
  // Not in one statement with the lock: that would see the entries as they were before it waited.
  const [entry] = await session.rows(FIND, [channel, index])
  if (entry) return entry[0] === stamp
  const [last, base] = (row ?? []) as [number?, number?]
  if (last === undefined || base === undefined) return undefined
  return last < index || base < index ? false : undefined
}
