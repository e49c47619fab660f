/**
 * The short form of the proof, for `npm test`: 8 connections without protection and 16 in `strict`, half of each by QUIC
 * and half by gRPC, at the same time. Prints what it found as JSON; to be run in a network of its own.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { seedOf } from '../support/random.ts'
import { type Connection, samplesOf } from './features.ts'
import { record, type Recording } from './measure.ts'
import { raiseLoopback } from './network.ts'
import { worthOf } from './permutation.ts'
import { Scene } from './scene.ts'

/** What is printed. */
export interface ShortFindings {
  readonly seed: number
  /** AUC. */
  readonly off: number
  /** AUC; the second is there when the first was over the bound. */
  readonly strict: readonly number[]
}

/** So few windows tell 0.5 from 0.8, not from 0.6. */
export const STRICT_BOUND = 0.7
const SEED = seedOf(6)
const PLAN = { blockMs: 2600, blocks: 6, talk: 'turns', perSecond: 1, longestBytes: 1024 } as const
/** The first so many of the processes. */
const WITHOUT_PROTECTION = 2

function worth({ connections, schedule }: Recording, chosen: (group: number) => boolean, seed: number): number {
  // There are too few processes to divide: each connection stands for itself.
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
  const recording = await record(scene, { ...PLAN, seed: SEED })
  const off = worth(recording, (group) => group < WITHOUT_PROTECTION, SEED)
  const strict = [worth(recording, (group) => group >= WITHOUT_PROTECTION, SEED)]
  if (strict[0]! > STRICT_BOUND) {
    const again = await record(scene, { ...PLAN, seed: SEED + 1 })
    strict.push(worth(again, (group) => group >= WITHOUT_PROTECTION, SEED + 1))
  }
  console.log(JSON.stringify({ seed: SEED, off, strict } satisfies ShortFindings))
}

if (import.meta.main) await main()
