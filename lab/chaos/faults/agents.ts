/** Faults of agents, their lines to the relay, and the API, with any servers. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Servers } from '../world/servers.ts'
import type { Weather } from '../world/line.ts'
import { breakDisk, type Fault, type Faults, HOUR_MS, someJump, someMs } from './fault.ts'

const disk =
  (error: 'EIO' | 'ENOSPC'): Fault['happen'] =>
  (scene) =>
    breakDisk(scene, scene.mortal().databasePid, error)

const weather =
  (change: Partial<Weather>): Fault['happen'] =>
  async (scene) => {
    const { lines } = scene.anyone()
    for (const line of lines) line.set(change)
    await delay(someMs(scene))
    for (const line of lines) line.set({})
  }

/** The faults. */
export const AGENT_FAULTS: Faults<Servers> = {
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
  'API killed': { kills: 1, happen: (scene) => scene.world.servers.killApi(someMs(scene)) },
  'agent stopped': { kills: 0, happen: (scene) => scene.anyone().freeze(someMs(scene)) },
  'connections reset': {
    kills: 0,
    happen: async (scene) => {
      for (const line of scene.anyone().lines) line.reset()
    },
  },
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
      clock.move(someJump(scene, 6 * HOUR_MS))
      await delay(someMs(scene))
      clock.move(0)
    },
  },
  'disk of an agent broken': { kills: 0, happen: disk('EIO') },
  'disk of an agent full': { kills: 0, happen: disk('ENOSPC') },
}
