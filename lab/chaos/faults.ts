/** What can go wrong. Each fault lasts for a while, and has an end. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Below } from '@static/testkit/random'
import type { AgentProcess } from './world/agent.ts'
import { failDisk } from './world/disk.ts'
import type { World } from './world/world.ts'

/** Where a fault happens, by chance. */
export interface Scene {
  readonly world: World
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
export interface Fault {
  /** How many processes it kills. */
  readonly kills: number
  readonly needsStrace?: boolean
  /** Resolves when it is over. */
  readonly happen: (scene: Scene) => Promise<void>
}

const HOUR_MS = 3_600_000
/** More than a token lives: a relay that is as far ahead refuses all of them. */
const RELAY_JUMP_MS = 5 * HOUR_MS

function someMs({ below, mostMs }: Scene): number {
  return 100 + below(mostMs)
}

const disk =
  (error: 'EIO' | 'ENOSPC', of: 'agent' | 'relay'): Fault['happen'] =>
  async (scene) => {
    const pid = of === 'relay' ? scene.world.servers.relayPid : scene.mortal().databasePid
    if (pid !== undefined && scene.strace !== undefined) await failDisk(scene.strace, pid, error, someMs(scene))
    await scene.world.servers.reviveRelay()
  }

const weather =
  (change: Parameters<AgentProcess['line']['set']>[0]): Fault['happen'] =>
  async (scene) => {
    const { line } = scene.anyone()
    line.set(change)
    await delay(someMs(scene))
    line.set({})
  }

/** All faults by name. */
export const FAULTS: Readonly<Record<string, Fault>> = {
  'agent killed': {
    kills: 1,
    happen: async (scene) => {
      const only = ([undefined, 'driver', 'program'] as const)[scene.below(3)]
      await scene.mortal().kill(only === undefined ? {} : { only })
    },
  },
  'two agents killed': {
    kills: 2,
    happen: async (scene) => void (await Promise.all([scene.mortal().kill(), scene.mortal().kill()])),
  },
  'relay killed': { kills: 1, happen: (scene) => scene.world.servers.killRelay(someMs(scene)) },
  'relay and agent killed': {
    kills: 2,
    happen: async (scene) => {
      await Promise.all([scene.world.servers.killRelay(someMs(scene)), scene.mortal().kill()])
    },
  },
  'API killed': { kills: 1, happen: (scene) => scene.world.servers.killApi(someMs(scene)) },
  'agent stopped': { kills: 0, happen: (scene) => scene.anyone().freeze(someMs(scene)) },
  'relay stopped': { kills: 0, happen: (scene) => scene.world.servers.freezeRelay(someMs(scene)) },
  'connections reset': { kills: 0, happen: async (scene) => scene.anyone().line.reset() },
  'cut off': { kills: 0, happen: weather({ isCut: true }) },
  'packets lost': { kills: 0, happen: weather({ lost: 20 }) },
  'packets late': { kills: 0, happen: weather({ delayMs: 150 }) },
  'slow reader': {
    kills: 0,
    happen: async (scene) => {
      const agent = scene.anyone()
      const pace = (ms: number): Promise<unknown> => agent.order({ order: 'pace', ms }).catch(() => {})
      await pace(200)
      await delay(someMs(scene))
      await pace(0)
    },
  },
  'clock of an agent jumps': {
    kills: 0,
    happen: async (scene) => {
      const { clock } = scene.mortal()
      clock.move((scene.below(2) === 0 ? -1 : 1) * scene.below(6 * HOUR_MS))
      await delay(someMs(scene))
      clock.move(0)
    },
  },
  'clock of the relay jumps': {
    kills: 0,
    happen: async (scene) => {
      const { clock } = scene.world.servers
      clock.move((scene.below(2) === 0 ? -1 : 1) * scene.below(RELAY_JUMP_MS))
      await delay(someMs(scene))
      clock.move(0)
    },
  },
  'disk of an agent broken': { kills: 0, needsStrace: true, happen: disk('EIO', 'agent') },
  'disk of an agent full': { kills: 0, needsStrace: true, happen: disk('ENOSPC', 'agent') },
  'disk of the relay broken': { kills: 0, needsStrace: true, happen: disk('EIO', 'relay') },
  'disk of the relay full': { kills: 0, needsStrace: true, happen: disk('ENOSPC', 'relay') },
}

/** Faults in an order of chance, each as often as the others, until so many processes were killed. */
export function* schedule(below: Below, kills: number, names: readonly string[]): Generator<string> {
  let left = kills
  while (left > 0) {
    const round = [...names]
    while (round.length > 0 && left > 0) {
      const [name = ''] = round.splice(below(round.length), 1)
      left -= FAULTS[name]?.kills ?? 0
      yield name
    }
    // Of faults that kill nothing, each happens once.
    if (left === kills) return
  }
}
