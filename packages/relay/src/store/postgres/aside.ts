/**
 * Calls that wait for a lock of another node. That node may be cut off, which PostgreSQL notices after 5 s. They wait
 * in a lane of their own, so that channels that merely share a batch with them do not wait.
 */
import type { StaticError } from '@static/protocol'
import type { ChannelId } from '../../ports.ts'
import type { Call } from '../call.ts'
import { channelOf } from './call-channel.ts'
import { READING } from './needs.ts'
import { type Session, statement } from './session.ts'

/** Operations that lock nothing but their channel. */
const PLAIN: ReadonlySet<Call['name']> = new Set<Call['name']>(['append', 'ack', 'read'])

// Free rows are locked only for this statement.
const LOCKED = statement(`WITH free AS MATERIALIZED
    (SELECT id FROM channels WHERE id = ANY($1::bytea[]) ORDER BY id FOR UPDATE SKIP LOCKED)
  SELECT encode(c.id, 'hex') FROM channels c WHERE c.id = ANY($1::bytea[]) AND c.id NOT IN (SELECT id FROM free)`)

/** A call, and its callbacks. */
export interface Waiting {
  readonly call: Call
  readonly resolve: (result: object) => void
  readonly reject: (error: StaticError) => void
  /** The call now waits elsewhere. */
  readonly release: () => void
}

/** Which calls of a batch that did not get a lock in time are waiting for one: those that lock what others hold now. */
export async function findBlocked(session: Session, batch: readonly Waiting[]): Promise<ReadonlySet<Waiting>> {
  const ids = new Set(batch.flatMap(({ call }) => channelOf(call) ?? []))
  const rows = await session.rows(LOCKED, [[...ids].map((id) => Buffer.from(id, 'hex'))])
  const locked = new Set(rows.map(([id]) => id as ChannelId))
  const isBlocked = ({ call }: Waiting): boolean =>
    // If no channel is locked, it was a lock on names, Welcomes or nonces.
    locked.size > 0 ? locked.has(channelOf(call) ?? '') : !PLAIN.has(call.name)
  return new Set(batch.filter(isBlocked))
}

/** The lane of calls that were set aside, and their channels. */
export class Aside {
  readonly #run: (call: Call) => Promise<object>
  /** Number of calls under way. */
  readonly #waiting = new Map<ChannelId, number>()

  /** `run` runs a call in that lane. */
  constructor(run: (call: Call) => Promise<object>) {
    this.#run = run
  }

  /** Whether a call must follow others of its channel, so as not to overtake them. Reading needs no lock. */
  has(call: Call): boolean {
    const channel = channelOf(call)
    return channel !== undefined && this.#waiting.has(channel) && !READING.has(call.name)
  }

  async run(call: Call): Promise<object> {
    const channel = channelOf(call)
    if (channel === undefined) return this.#run(call)
    this.#waiting.set(channel, (this.#waiting.get(channel) ?? 0) + 1)
    try {
      return await this.#run(call)
    } finally {
      const left = (this.#waiting.get(channel) ?? 1) - 1
      if (left > 0) this.#waiting.set(channel, left)
      else this.#waiting.delete(channel)
    }
  }
}
