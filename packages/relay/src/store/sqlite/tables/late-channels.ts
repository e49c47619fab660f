/** Reads from the log at start: where it ends, and which channels have rows that are behind it. */
import { toHex } from '@static/protocol'
import type { ChannelId } from '../../../ports.ts'
import { isDamage } from '../damage.ts'
import type { Statements } from '../statements.ts'

type OnDamage = ((error: unknown) => void) | undefined

/** The number of the last entry, 0 without one. */
export function lastSequence({ lastSequence, lastSequenceByKey }: Statements, onDamage: OnDamage): number {
  const read = (statement: typeof lastSequence): number => (statement.get() as unknown as [number | null])[0] ?? 0
  return sound(() => read(lastSequence), onDamage) ?? read(lastSequenceByKey)
}

/**
 * The channels with entries after a sequence number, except those whose own row cannot be read. If the list itself
 * cannot be read, returns none: a channel notices when used that its rows are behind; only sums do not.
 */
export function lateChannels(statements: Statements, stored: number, onDamage: OnDamage): ChannelId[] {
  const { lateNumbers, lateNumbersByKey, idOf } = statements
  const read = (statement: typeof idOf): [number][] => statement.all(stored) as unknown as [number][]
  const numbers = sound(() => read(lateNumbers), onDamage) ?? sound(() => read(lateNumbersByKey), onDamage) ?? []
  return numbers.flatMap(([number]) => {
    const row = sound(() => idOf.get(number), onDamage) as unknown as [Uint8Array] | undefined
    return row ? toHex(row[0]) : []
  })
}

/** The value read, or undefined if it is damaged. */
function sound<Result>(read: () => Result, onDamage: OnDamage): Result | undefined {
  try {
    return read()
  } catch (error) {
    if (!isDamage(error)) throw error
    onDamage?.(error)
    return undefined
  }
}
