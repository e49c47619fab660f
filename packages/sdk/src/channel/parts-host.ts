/** What the parts of a membership ask of it, answered by the other parts, the turn and the writer. */
import type { ChannelWriter } from './channel-writer.ts'
import type { CommitterHost } from './members/committer.ts'
import type { Intake, IntakeHost } from './receiving/intake.ts'
import type { FollowerHost } from './log/follower.ts'
import type { Sender, SenderHost } from './sending/sender.ts'
import type { Receipts } from './receipts/receipts.ts'
import type { ChannelTurn } from './turn.ts'

/** Each part gets a narrow view of it. */
export type PartsHost = IntakeHost & SenderHost & CommitterHost & FollowerHost

/** A membership as its host sees it. Its parts may be set after the host was created. */
interface HostedMembership {
  readonly intake: Intake
  readonly sender: Sender
  readonly receipts: Receipts
  over(code?: 'removed' | 'not_found'): void
}

/** The host of a membership's parts. `own` is what the membership does itself. */
export function partsHostOf(
  channel: HostedMembership,
  turn: ChannelTurn,
  writer: ChannelWriter,
  own: Pick<PartsHost, 'take' | 'break' | 'adopt' | 'committed' | 'forked'>,
): PartsHost {
  return {
    ...own,
    get receiptDemand() {
      return channel.receipts.demand
    },
    get counter() {
      return channel.sender.counter
    },
    get isFree() {
      return turn.isFree
    },
    touch: () => writer.touch(),
    touchLater: () => writer.touchLater(),
    work: () => turn.attempt(() => turn.work()),
    exclusively: (task) => turn.exclusively(task),
    take: (entry) => turn.attempt(() => own.take(entry)),
    resumed: () => turn.attempt(() => turn.resume()),
    raiseHead: (head) => channel.intake.raiseHead(head),
    obstacle: () => turn.obstacle(),
    over: (code?: 'removed' | 'not_found') => channel.over(code),
  }
}
