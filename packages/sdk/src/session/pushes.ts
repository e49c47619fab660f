/** What the relay tells unasked. */
import type { ServerBody } from '../ports.ts'

/** Every kind of push but the last word on a session. */
export const PUSHES: ReadonlySet<ServerBody['case']> = new Set([
  'deliverMessage',
  'deliverCommit',
  'deliverLeave',
  'deliverWelcome',
  'gap',
  'commitRejected',
  'rosterReset',
  'barLifted',
  'channelDeleted',
  'joinAnswered',
  'keyPackagesLow',
])
