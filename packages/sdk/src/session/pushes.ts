/** Messages that the relay sends without being asked. */
import type { ServerBody } from '../ports/index.ts'

/** Every kind of push, except the one that closes a session. */
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
  'receipts',
])
