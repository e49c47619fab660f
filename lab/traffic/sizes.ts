/**
 * Which sizes packets have. Two recordings look alike when each size that makes up at least one in a hundred packets of
 * the one makes up at least one in a thousand of the other. In QUIC an acknowledgement rides on a packet when there is
 * one to give, and numbers and offsets take a byte or two more as they grow: sizes that are that near to each other
 * count as one.
 */
import { type Connection, DATA_BYTES, type Seen } from './features.ts'
import type { Schedule } from './schedule.ts'

/** Sizes that count as one, in bytes after the TCP or UDP header. */
export interface SizeGroup {
  readonly from: number
  readonly to: number
  /** Share of all packets of the direction. */
  readonly share: number
}

/** Sizes by direction. */
export interface Sizes {
  /** Sizes that differ by at most this many bytes count as one. */
  readonly near: number
  readonly up: readonly SizeGroup[]
  readonly down: readonly SizeGroup[]
}

const RARE = 0.01
/** QUIC: an ACK frame with its ranges and delay, plus the growth of packet numbers and offsets. */
const NEAR_BYTES = { tcp: 0, udp: 16 } as const

/** The machine may stand still between two packets of one write. */
const PAUSE_S = 0.1

/** The sizes of a recording. */
export function sizesOf(connections: readonly Connection[], schedule: Schedule, protocol: 'tcp' | 'udp'): Sizes {
  const near = NEAR_BYTES[protocol]
  return {
    near,
    up: groupsOf(inside(connections, schedule, 'up'), near),
    down: groupsOf(inside(connections, schedule, 'down'), near),
  }
}

/** The sizes of each of two recordings that are not rare, and that the other does not have. */
export function onlyInOne(one: Sizes, other: Sizes): string[] {
  return (['up', 'down'] as const).flatMap((way) => [
    ...missing(one[way], other[way], one.near).map((size) => `${way}: ${size} in the first alone`),
    ...missing(other[way], one[way], one.near).map((size) => `${way}: ${size} in the second alone`),
  ])
}

/** The sizes in words, without rare ones. */
export function wordsOf(groups: readonly SizeGroup[]): string {
  return groups
    .filter(({ share }) => share >= RARE)
    .map(nameOf)
    .join(', ')
}

/** Bytes that left without a pause, that is, were written at once. TCP's retransmissions do not count. */
export function burstsOf(connections: readonly Connection[], schedule: Schedule, way: 'up' | 'down'): number[] {
  return connections.flatMap((connection) => {
    const bursts: number[] = []
    let last = -Infinity
    for (const { time, length, isRepeat } of inside([connection], schedule, way)) {
      if (length < DATA_BYTES || isRepeat) continue
      if (time - last > PAUSE_S) bursts.push(0)
      bursts[bursts.length - 1]! += length
      last = time
    }
    return bursts
  })
}

function missing(groups: readonly SizeGroup[], others: readonly SizeGroup[], near: number): string[] {
  const known = others.filter(({ share }) => share >= RARE / 10)
  return groups
    .filter(({ share }) => share >= RARE)
    .filter(({ from, to }) => !known.some((other) => other.from - near <= to && from - near <= other.to))
    .map(nameOf)
}

function nameOf({ from, to }: SizeGroup): string {
  return from === to ? String(from) : `${from}–${to}`
}

function inside(
  connections: readonly Connection[],
  { startsAt, blockMs, blocks }: Schedule,
  way: 'up' | 'down',
): Seen[] {
  const from = startsAt / 1000
  const to = from + (blocks * blockMs) / 1000
  return connections.flatMap((connection) => connection[way].filter(({ time }) => time >= from && time < to))
}

function groupsOf(packets: readonly Seen[], near: number): SizeGroup[] {
  const counts = new Map<number, number>()
  for (const { length } of packets) counts.set(length, (counts.get(length) ?? 0) + 1)
  const groups: { from: number; to: number; share: number }[] = []
  for (const [length, count] of [...counts].sort(([a], [b]) => a - b)) {
    const share = count / packets.length
    const last = groups.at(-1)
    // A chain of neighbours must not merge everything into one group.
    if (last && length - last.from <= near) Object.assign(last, { to: length, share: last.share + share })
    else groups.push({ from: length, to: length, share })
  }
  return groups
}
