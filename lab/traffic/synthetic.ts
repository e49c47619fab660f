/** Synthetic connections, to test the test: a clock with jitter, and a chosen difference. */
import { type Chance, chanceOf } from './chance.ts'
import type { Connection, Seen } from './features.ts'
import { isActive, type Phase, type Schedule } from './schedule.ts'

/** Options of the connections. */
export interface Synthetic {
  readonly groups: number
  readonly perGroup: number
  readonly seed: number
  /** Average delay of ticks in active blocks, in seconds. */
  readonly lateness: number
  /** The same for all connections, in about every other second at random, as if the machine were busy. */
  readonly hiccups?: number
}

const TICK_S = 0.25
const JITTER = 0.2
const CELL = 1063

/** Makes connections that tick through a schedule. */
export function synthetic(schedule: Schedule, options: Synthetic): Connection[] {
  const { groups, perGroup, seed, lateness, hiccups = 0 } = options
  const chance = chanceOf(seed)
  const seconds = Array.from({ length: (schedule.blocks * schedule.blockMs) / 1000 + 1 }, () => chance() < 0.5)
  const common = (due: number): number => (seconds[Math.floor(due)] ? chance() * 2 * hiccups : 0)
  return Array.from({ length: groups * perGroup }, (_, at) => {
    const group = Math.floor(at / perGroup)
    const phase: Phase = group % 2 === 0 ? 0 : 1
    const direction = (late: number): Seen[] => ticks(schedule, phase, late, common, chance)
    return { group, phase, up: direction(lateness), down: direction(0) }
  })
}

function ticks(
  { startsAt, blockMs, blocks }: Schedule,
  phase: Phase,
  lateness: number,
  common: (due: number) => number,
  chance: Chance,
): Seen[] {
  const count = Math.floor((blocks * blockMs) / 1000 / TICK_S)
  const offset = chance() * TICK_S
  return Array.from({ length: count }, (_, at) => {
    const due = offset + at * TICK_S + (chance() - 0.5) * JITTER * TICK_S
    const late = isActive(Math.floor((due * 1000) / blockMs), phase) ? chance() * 2 * lateness : 0
    return { time: startsAt / 1000 + due + late + common(due), length: CELL }
  })
}
