/**
 * A leak planted into a recording, to show that the test would find one: in active blocks an agent's cell is
 * now and then followed by a second one, as if real data were added to the clock instead of replacing cover.
 */
import { type Chance, chanceOf } from './chance.ts'
import { type Connection, DATA_BYTES, samplesOf, type Seen } from './features.ts'
import { type Trial, type TrialOptions, tryToTell, worthOf } from './permutation.ts'
import { isActive, type Schedule } from './schedule.ts'

/** A planted leak, and the test's verdict on it. */
export interface PlantedLeak {
  /** How many of the cells in active blocks have a second one. */
  readonly share: number
  readonly trial: Trial
}

const LATER_S = 0.001
const STEPS = 9
const LARGEST_SHARE = 0.25

/** Plants a leak that is worth about `auc` to an observer, and tests. */
export function plantLeak(
  connections: readonly Connection[],
  schedule: Schedule,
  auc: number,
  options: TrialOptions,
): PlantedLeak {
  let low = 0
  let high = LARGEST_SHARE
  for (let step = 0; step < STEPS; step++) {
    const share = (low + high) / 2
    const worth = worthOf(samplesOf(planted(connections, schedule, share, options.seed), schedule), options)
    if (worth < auc) low = share
    else high = share
  }
  // From below: it is worth no more than was asked for.
  return {
    share: low,
    trial: tryToTell(samplesOf(planted(connections, schedule, low, options.seed), schedule), options),
  }
}

function planted(connections: readonly Connection[], schedule: Schedule, share: number, seed: number): Connection[] {
  const chance = chanceOf(seed)
  return connections.map((connection) => ({ ...connection, up: withSecond(connection, schedule, share, chance) }))
}

function withSecond({ up, phase }: Connection, { startsAt, blockMs }: Schedule, share: number, chance: Chance): Seen[] {
  return up.flatMap((packet) => {
    const { time, length } = packet
    const block = Math.floor((time * 1000 - startsAt) / blockMs)
    // One draw for each packet, so that the same ones are chosen first at any share.
    const isChosen = chance() < share
    const isDoubled = isChosen && length >= DATA_BYTES && block >= 0 && isActive(block, phase)
    return isDoubled ? [packet, { time: time + LATER_S, length }] : [packet]
  })
}
