/** The short form of the proof, for `npm test`. */
import type { Run } from './machine.ts'

/** A few agents and faults, for some seconds. */
export const SHORT: Omit<Run, 'seed' | 'say'> = {
  kills: 3,
  faults: ['agent killed', 'relay killed', 'agent stopped', 'cut off', 'packets lost', 'connections reset'],
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
