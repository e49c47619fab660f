/**
 * What an agent knows of the keys of a root, as it is stored, and how a fetch changes it (SPEC.md, 7.3). Pure: the
 * schedule and the files are elsewhere.
 */
import { type KeySet, readKeys, thumbprintOf } from './keys.ts'
import type { Root } from './roots.ts'

export interface KeyState {
  /** The keys that count. */
  readonly accepted?: KeySet
  /** When a fetch last found them unchanged, or changed in part; never before `seenAt`. */
  readonly renewedAt: number
  /** How current `accepted` is: when it was fetched, or when its file on this machine was written. */
  readonly currentAt?: number
  /** When a fetch was last tried, and when one was added for an unknown key id. */
  readonly triedAt: number
  readonly addedAt: number
  /** No time before this is believed, so that a clock that is set back does not revive anything. */
  readonly seenAt: number
  /** Keys that share none with the accepted ones: somebody else may have the domain now. A person decides. */
  readonly waiting?: KeySet
  /** Why the last file was refused; undefined if it was right or out of reach. Then no key counts. */
  readonly refused?: string
  /** Why the last fetch failed. */
  readonly failed?: string
  /** The ids of owners and repositories of GitHub, as first seen: names are given to others, ids are not. */
  readonly ids: Readonly<Record<string, string>>
}

/** The content of a file of keys, and when it was written if it is one of this machine; or why it is out of reach. */
export type Fetched = { readonly bytes: Uint8Array; readonly writtenAt?: number } | { readonly failed: string }

const HOUR_MS = 3_600_000
/** Keys that cannot be renewed count for so long. */
export const GRACE_MS: number = 24 * HOUR_MS
/** A failed fetch does not show that the clock is right, so it moves `seenAt` by no more than this. */
const LONGEST_STEP_MS = 2 * HOUR_MS

export const NO_KEYS: KeyState = { renewedAt: 0, triedAt: 0, addedAt: 0, seenAt: 0, ids: {} }

/** The state after a fetch. */
export function afterFetch(root: Root, state: KeyState, fetched: Fetched, now: number): KeyState {
  const { refused: _refused, failed: _failed, waiting, ...rest } = state
  const tried = { ...rest, triedAt: now }
  if ('failed' in fetched) {
    const seenAt = Math.min(markAt(state, now), state.seenAt + LONGEST_STEP_MS)
    // Still refused: else an attacker who cannot mend the file could cut the connection.
    const kept = { ...(waiting && { waiting }), ...(state.refused && { refused: state.refused }) }
    return { ...tried, ...kept, seenAt, failed: fetched.failed }
  }
  const seenAt = Math.max(state.seenAt, now)
  const found = readKeys(root, fetched.bytes)
  if (typeof found === 'string') return { ...tried, ...(waiting && { waiting }), seenAt, refused: found }
  const { accepted } = state
  // The owner of this machine writes a file of keys.
  const isOther = root.keys === undefined && accepted !== undefined && !overlaps(accepted, found)
  if (isOther) return { ...tried, seenAt: markAt(state, now), waiting: found }
  const currentAt = Math.min(fetched.writtenAt ?? seenAt, seenAt)
  return { ...tried, seenAt, accepted: found, renewedAt: seenAt, currentAt }
}

/**
 * The time of a fetch that renews nothing. While the clock is behind the mark, because it was ahead once, time passes
 * all the same: otherwise keys that cannot be renewed would count until the clock has come that far.
 */
function markAt({ seenAt, triedAt }: KeyState, now: number): number {
  return now >= seenAt ? now : seenAt + Math.min(Math.max(0, now - triedAt), LONGEST_STEP_MS)
}

/** The state after a person has accepted the keys that wait. */
export function afterAccepting({ waiting, ...state }: KeyState, now: number): KeyState {
  return waiting === undefined ? state : { ...state, accepted: waiting, renewedAt: Math.max(now, state.seenAt) }
}

/** The keys that count now; a text says why none does. */
export function usableKeys({ accepted, waiting, refused, renewedAt, failed }: KeyState, now: number): KeySet | string {
  if (refused !== undefined) return `the file of its keys ${refused}`
  if (accepted === undefined)
    return failed === undefined ? 'its keys were not fetched yet' : `its keys are out of reach: ${failed}`
  if (now - renewedAt > GRACE_MS) {
    if (waiting !== undefined) return 'all of its keys were replaced at once: run `static trust accept-keys`'
    return `its keys have been out of reach for more than a day${failed === undefined ? '' : `: ${failed}`}`
  }
  if (waiting === undefined) return accepted
  // What the new file takes away is taken away at once.
  const notBefore = Math.max(accepted.notBefore, waiting.notBefore)
  return { ...accepted, notBefore, revoked: [...accepted.revoked, ...waiting.revoked] }
}

/** The name in a proven repository that stands for another id with one of the roots; undefined if none does. */
export function contradictedId(
  roots: Iterable<{ readonly state: Pick<KeyState, 'ids'> }>,
  found: Readonly<Record<string, string>>,
): string | undefined {
  for (const {
    state: { ids },
  } of roots) {
    const moved = Object.keys(found).find((name) => Object.hasOwn(ids, name) && ids[name] !== found[name])
    if (moved !== undefined) return moved
  }
  return undefined
}

function overlaps(one: KeySet, other: KeySet): boolean {
  const known = new Set(one.keys.map(thumbprintOf))
  return other.keys.some((key) => known.has(thumbprintOf(key)))
}
