/** What the receipts of a channel ask of it, answered by its parts. */
import type { StaticError } from '@static/protocol'
import type { ChannelView } from '../part.ts'
import type { ChannelWriter } from '../channel-writer.ts'
import type { Intake } from '../receiving/intake.ts'
import type { Inbox } from '../receiving/inbox.ts'
import type { Sender } from '../sending/sender.ts'
import type { Roster } from '../members/roster.ts'
import type { ReceiptsHost } from './receipts.ts'

/** The parts of a channel that its receipts are about. They may be set after the host was created. */
interface ReceiptsParts extends ChannelView {
  readonly failure: StaticError | undefined
  readonly intake: Intake
  readonly inbox: Inbox
  readonly sender: Sender
  readonly roster: Roster
}

/** The host of a channel's receipts. */
export function receiptsHostOf(
  parts: ReceiptsParts,
  writer: ChannelWriter,
  forked: ReceiptsHost['forked'],
): ReceiptsHost {
  return {
    get isOnline() {
      return parts.intake.isOnline
    },
    get failure() {
      return parts.failure
    },
    // Payloads alone: anybody can send a request that no one serves, or never read its answers.
    settledUpTo: (after) => parts.inbox.settledUpTo(parts.history.position.index, after),
    touch: () => writer.touchPart(),
    touchLater: () => writer.touchPartLater(),
    acknowledge: (receipt) => parts.intake.sendReceipt(receipt),
    resume: () => parts.intake.resume(),
    forked,
    isLeaving: (agent) => parts.roster.notice(agent) !== undefined,
    isPending: (messageId) => parts.sender.isPending(messageId),
  }
}
