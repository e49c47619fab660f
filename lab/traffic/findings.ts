/** Results of a proof, as kept in bench/results/traffic.json. */
import type { TrafficProfileName } from '@static/protocol'
import type { Connection } from './features.ts'
import type { Trial } from './permutation.ts'
import type { Recording } from './measure.ts'
import type { Way } from './scene.ts'
import { sizesOf, type Sizes, wordsOf } from './sizes.ts'

/** One measurement of one profile on one way. */
export interface Finding {
  readonly auc: number
  readonly p: number
  /** Results by chance: their mean, and the bounds of 95 and 99 % of them. */
  readonly chance: Trial['chance']
  readonly windows: Trial['windows']
  readonly best: Trial['best']
  readonly seed: number
  readonly blockSeconds: number
  readonly messages: { readonly sent: number; readonly received: number }
  /** Payload of TCP or UDP, per connection. */
  readonly bytesPerSecond: Recording['bytesPerSecond']
  /** After the TCP or UDP header; rare ones are left out. */
  readonly sizes: { readonly up: string; readonly down: string }
}

/** Real and cover traffic in `standard`. */
export interface Likeness {
  readonly messagesPerSecond: number
  readonly cover: SizeWords
  readonly real: SizeWords
  /** Sizes of one that the other does not have. */
  readonly differences: readonly string[]
  /** Bytes that leave at once when no agent talks, and how often, in percent. */
  readonly unitBytes: number
  readonly unitShare: number
}

/** Sizes of both directions, for people. */
export interface SizeWords {
  readonly up: string
  readonly down: string
}

/** Results on one way. */
export interface WayFindings {
  readonly profiles: Readonly<Partial<Record<TrafficProfileName | 'privateLong', Finding>>>
  readonly likeness?: Likeness
  readonly plantedLeak?: { readonly share: number; readonly auc: number; readonly p: number }
  /** Tries of `strict`: of one run the last counts, of several runs all. */
  readonly strictTries: readonly Finding[]
}

/** All of it. */
export interface Findings {
  readonly date: string
  readonly seed: number
  readonly connections: number
  readonly processes: number
  readonly messagesPerSecond: number
  readonly ways: Readonly<Record<Way, WayFindings>>
  /** If there were several: their AUCs are averaged and their ps pooled. */
  readonly runs?: readonly { readonly seed: number }[]
}

/** A short piece of one connection, for the plot. */
export interface Trace {
  readonly connection: Connection
  readonly schedule: Recording['schedule']
}

/** Puts a measurement and its test together. */
export function findingOf(
  { schedule, counts, bytesPerSecond, connections }: Recording,
  trial: Trial,
  seed: number,
  way: Way,
): Finding {
  const { auc, p, chance, windows, best } = trial
  return {
    auc: rounded(auc),
    p: rounded(p),
    chance: { mean: rounded(chance.mean), p95: rounded(chance.p95), p99: rounded(chance.p99) },
    windows,
    best: best.map(({ feature, auc: alone }) => ({ feature, auc: rounded(alone) })),
    seed,
    blockSeconds: schedule.blockMs / 1000,
    messages: { sent: counts.sent, received: counts.received },
    bytesPerSecond,
    sizes: sizeWords(sizesOf(connections, schedule, protocolOf(way))),
  }
}

export function sizeWords({ up, down }: Sizes): SizeWords {
  return { up: wordsOf(up), down: wordsOf(down) }
}

export function protocolOf(way: Way): 'tcp' | 'udp' {
  return way === 'quic' ? 'udp' : 'tcp'
}

export function rounded(value: number): number {
  return Number(value.toFixed(4))
}
