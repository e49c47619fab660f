/** Faults and the order in which they happen. Each lasts for a while and ends. */
import type { Below } from '@static/testkit/random'
import type { AgentProcess } from '../world/agent.ts'
import { failDisk } from '../world/disk.ts'
import type { Servers } from '../world/servers.ts'
import type { World } from '../world/world.ts'

/** The place of a fault, and the randomness that chooses in it. */
export interface Scene<Kind extends Servers = Servers> {
  readonly world: World<Kind>
  readonly below: Below
  /** The longest a fault lasts. */
  readonly mostMs: number
  /** An agent that may be killed. */
  mortal(): AgentProcess
  /** An agent. */
  anyone(): AgentProcess
  /** The path of strace, if disks may fail. */
  readonly strace: string | undefined
}

/** A fault. */
export interface Fault<Kind extends Servers = Servers> {
  /** How many processes it kills. */
  readonly kills: number
  /** Resolves when it is over. */
  readonly happen: (scene: Scene<Kind>) => Promise<void>
}

/** Faults by name. */
export type Faults<Kind extends Servers> = Readonly<Record<string, Fault<Kind>>>

export const HOUR_MS = 3_600_000

/** How long a fault lasts. */
export function someMs({ below, mostMs }: Scene): number {
  return 100 + below(mostMs)
}

/** A random jump of a clock, backward or forward, up to `mostMs`. */
export function someJump({ below }: Pick<Scene, 'below'>, mostMs: number): number {
  return (below(2) === 0 ? -1 : 1) * below(mostMs)
}

/** Makes the disk of a process fail, if possible. */
export async function breakDisk(scene: Scene, pid: number | undefined, error: 'EIO' | 'ENOSPC'): Promise<void> {
  if (pid !== undefined && scene.strace !== undefined) await failDisk(scene.strace, pid, error, someMs(scene))
}

/** Faults in random order, all equally often, until this many processes were killed. */
export function* schedule(
  below: Below,
  kills: number,
  faults: Readonly<Record<string, Pick<Fault, 'kills'>>>,
): Generator<string> {
  let left = kills
  while (left > 0) {
    const round = Object.keys(faults)
    while (round.length > 0 && left > 0) {
      const [name = ''] = round.splice(below(round.length), 1)
      left -= faults[name]?.kills ?? 0
      yield name
    }
    // Faults that kill nothing happen once each.
    if (left === kills) return
  }
}
