/** Checks the histories of all agents of a channel against each other. Returns what is wrong, one sentence each. */
import type { History } from '../history.ts'
import { checkEvents, checkInvites, checkWords } from './members.ts'
import { checkComplete, checkEpochs, checkOrder, checkRemoved, logOf } from './messages.ts'
import { checkReceipts } from './receipts.ts'
import { checkRequests } from './requests.ts'

/** All checks, once the agents are idle. */
export function check(histories: readonly History[]): string[] {
  const { entries, faults } = logOf(histories)
  return [
    ...faults,
    ...histories.flatMap(checkOrder),
    ...checkEpochs(histories),
    ...histories.flatMap((history) => checkComplete(history, entries)),
    ...checkRemoved(histories, entries),
    ...checkRequests(histories),
    ...checkReceipts(histories, entries),
    ...checkInvites(histories),
    ...checkEvents(histories),
    ...checkWords(histories),
  ]
}

/** Messages that members have yet to read. */
export function unread(histories: readonly History[]): string[] {
  const { entries } = logOf(histories)
  return histories.flatMap((history) => checkComplete(history, entries))
}
