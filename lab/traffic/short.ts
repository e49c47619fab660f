/**
 * The short form of the proof, for `npm test`: 8 connections without protection and 16 in `strict`, half of each by
 * QUIC and half by gRPC, at the same time. Prints what it found as JSON; to be run in a network of its own.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { seedOf } from '@static/testkit/random'
import { type Connection, samplesOf } from './features.ts'
import { record, type Recording } from './measure.ts'
import { raiseLoopback } from './network.ts'
import { worthOf } from './permutation.ts'
import { Scene } from './scene.ts'

/** The output. */
export interface ShortFindings {
  readonly seed: number
  /** AUC of each try; there are more than one when one of a try was on the wrong side of its bound. */
  readonly off: readonly number[]
  readonly strict: readonly number[]
}

/** With so few windows, 0.5 can be told from 0.8, but not from 0.6. */
export const STRICT_BOUND = 0.7
export const OFF_BOUND = 0.8
/** Other work on the machine can push a try over a bound, in either direction; a real leak shows in every try. */
const TRIES = 4
const SEED = seedOf(6)
const PLAN = { blockMs: 2600, blocks: 6, talk: 'turns', perSecond: 1, longestBytes: 1024 } as const
/** The first so many of the processes. */
const WITHOUT_PROTECTION = 2

function worth({ connections, schedule }: Recording, chosen: (group: number) => boolean, seed: number): number {
  // There are too few processes to split: each connection is its own group.
  const lone = connections.filter(({ group }) => chosen(group)).map((one, at): Connection => ({ ...one, group: at }))
  return worthOf(samplesOf(lone, schedule), { seed, splits: 16 })
}

async function main(): Promise<void> {
  raiseLoopback()
  await using scene = await Scene.start({ processes: 6, agents: 4 })
  await scene.connect((process) => ({
    way: process % 2 === 0 ? 'quic' : 'grpc',
    traffic: process < WITHOUT_PROTECTION ? 'off' : 'strict',
  }))
  await wait(1000)
  const [off, strict]: [number[], number[]] = [[], []]
  for (let seed = SEED; seed < SEED + TRIES; seed++) {
    const recording = await record(scene, { ...PLAN, seed })
    off.push(worth(recording, (group) => group < WITHOUT_PROTECTION, seed))
    strict.push(worth(recording, (group) => group >= WITHOUT_PROTECTION, seed))
    if (strict.at(-1)! <= STRICT_BOUND && off.at(-1)! >= OFF_BOUND) break
  }
  console.log(JSON.stringify({ seed: SEED, off, strict } satisfies ShortFindings))
}

if (import.meta.main) await main()
