/** Faults of a relay on one node, and of its agents. */
import { setTimeout as delay } from 'node:timers/promises'
import type { OneNode } from '../world/one-node.ts'
import { AGENT_FAULTS } from './agents.ts'
import { breakDisk, type Fault, type Faults, HOUR_MS, someJump, someMs } from './fault.ts'

/** Longer than a token lives: a relay whose clock is this far ahead refuses every token. */
const RELAY_JUMP_MS = 5 * HOUR_MS

const disk =
  (error: 'EIO' | 'ENOSPC'): Fault<OneNode>['happen'] =>
  async (scene) => {
    const { servers } = scene.world
    await breakDisk(scene, servers.relayPids[0], error)
    // The relay exits if it cannot write.
    await servers.revive()
  }

/** The faults. */
export const ONE_NODE_FAULTS: Faults<OneNode> = {
  ...AGENT_FAULTS,
  'relay killed': { kills: 1, happen: (scene) => scene.world.servers.killRelay(someMs(scene)) },
  'relay and agent killed': {
    kills: 2,
    happen: async (scene) => {
      await Promise.all([scene.world.servers.killRelay(someMs(scene)), scene.mortal().kill()])
    },
  },
  'relay stopped': { kills: 0, happen: (scene) => scene.world.servers.freezeRelay(someMs(scene)) },
  'clock of the relay jumps': {
    kills: 0,
    happen: async (scene) => {
      const { clock } = scene.world.servers
      clock.move(someJump(scene, RELAY_JUMP_MS))
      await delay(someMs(scene))
      clock.move(0)
    },
  },
  'disk of the relay broken': { kills: 0, happen: disk('EIO') },
  'disk of the relay full': { kills: 0, happen: disk('ENOSPC') },
}
