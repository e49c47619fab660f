/** Faults of a relay on several nodes, and of its agents. */
import { setTimeout as delay } from 'node:timers/promises'
import { API_NODES } from '../../../tests/support/cluster.ts'
import type { SeveralNodes } from '../world/several-nodes.ts'
import { AGENT_FAULTS } from './agents.ts'
import { type Fault, type Faults, HOUR_MS, type Scene, someJump, someMs } from './fault.ts'

/** Longer than a token lives. */
const NODE_JUMP_MS = 5 * HOUR_MS

type Happen = Fault<SeveralNodes>['happen']

function someNode({ world, below }: Scene<SeveralNodes>): number {
  return below(world.servers.targets.length)
}

const cut =
  (...parts: Parameters<SeveralNodes['cut']>[1]): Happen =>
  (scene) =>
    scene.world.servers.cut(someNode(scene), parts, someMs(scene))

/** The faults. */
export const SEVERAL_NODES_FAULTS: Faults<SeveralNodes> = {
  ...AGENT_FAULTS,
  'API killed': { kills: API_NODES, happen: (scene) => scene.world.servers.killApi(someMs(scene)) },
  'node killed': { kills: 1, happen: (scene) => scene.world.servers.killRelay(someNode(scene), someMs(scene)) },
  'two nodes killed': {
    kills: 2,
    happen: async (scene) => {
      const { servers } = scene.world
      const node = someNode(scene)
      const other = (node + 1) % servers.targets.length
      await Promise.all([node, other].map((each) => servers.killRelay(each, someMs(scene))))
    },
  },
  'node and agent killed': {
    kills: 2,
    happen: async (scene) => {
      const { servers } = scene.world
      await Promise.all([servers.killRelay(someNode(scene), someMs(scene)), scene.mortal().kill()])
    },
  },
  'node restarted': { kills: 0, happen: (scene) => scene.world.servers.restartRelay(someNode(scene)) },
  'node stopped': {
    kills: 0,
    happen: (scene) => scene.world.servers.freezeRelay(someNode(scene), someMs(scene)),
  },
  'node cut off from PostgreSQL': { kills: 0, happen: cut('postgres') },
  'node cut off from NATS': { kills: 0, happen: cut('nats') },
  'node cut off from both': { kills: 0, happen: cut('postgres', 'nats') },
  'NATS killed': { kills: 1, happen: (scene) => scene.world.servers.killNats(someMs(scene)) },
  'primary killed': { kills: 1, happen: (scene) => scene.world.servers.killPrimary() },
  'standby promoted': { kills: 1, happen: (scene) => scene.world.servers.failOver() },
  'clock of a node jumps': {
    kills: 0,
    happen: async (scene) => {
      const clock = scene.world.servers.clocks[someNode(scene)]
      clock?.move(someJump(scene, NODE_JUMP_MS))
      await delay(someMs(scene))
      clock?.move(0)
    },
  },
}
