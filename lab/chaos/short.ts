/** The short form of the proof, for `npm test`. */
import { ONE_NODE_FAULTS } from './faults/one-node.ts'
import type { Run } from './machine.ts'
import { OneNode } from './world/one-node.ts'

const NAMES = ['agent killed', 'relay killed', 'agent stopped', 'cut off', 'packets lost', 'connections reset']

/** A few agents and faults, for some seconds. */
export const SHORT: Omit<Run<OneNode>, 'seed' | 'say'> = {
  startServers: (workspace) => OneNode.start(workspace),
  kills: 3,
  faults: Object.fromEntries(Object.entries(ONE_NODE_FAULTS).filter(([name]) => NAMES.includes(name))),
  stayers: [
    { name: 'owner', language: 'typescript', way: 'grpc' },
    { name: 'witness', language: 'typescript', way: 'quic' },
    { name: 'pia', language: 'python', way: 'grpc' },
  ],
  visitors: [
    { name: 'vera', language: 'typescript', way: 'grpc', isGuest: true },
    { name: 'vic', language: 'typescript', way: 'quic' },
  ],
  pauseMs: 250,
  faultPauseMs: 500,
  lifePauseMs: 300,
  joinSeconds: 4,
  mostFaultMs: 500,
  // A busy machine may take long; the proof has 30 s.
  drainMs: 120_000,
  strace: undefined,
}
