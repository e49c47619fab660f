/**
 * Follows a channel's log: processes entries in order, one at a time. Messages take effect immediately, commits when
 * MLS has processed them. Changes memory only; the turn writes the changes at its end.
 */
import { sha256 } from '#platform/crypto'
import { declarationBytes, fromHex, message, StaticError, toHex } from '@static/protocol'
import {
  type DeliverCommit,
  type DeliverLeave,
  type DeliverMessage,
  type GapNotice,
  LiftBarRequestSchema,
  RejectCommitRequestSchema,
} from '@static/protocol/relay'
import { same } from '../../platform/bytes.ts'
import { ed25519, type Member, type Processed } from '../../mls/index.ts'
import type { AgentId } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import { type GroupState, wipeEpoch } from '../group-state.ts'
import type { AgentChannel } from '../channel.ts'
import { deliverFrame } from '../receiving/delivery.ts'
import { decodeFrame, type DecodedFrame, VERSION } from '../sending/message-frame.ts'
import { commitEntry, isAnother, leaveEntry, leaveNotice, messageEntry, signedDeclaration } from './chain-entry.ts'
import { relayRolledBack } from './contradiction.ts'
import { Disputes } from './disputes.ts'
import type { Difference } from './history.ts'
import type { LogEntry } from './log-entry.ts'

/** The context that a follower needs from its agent. */
type FollowerContext = Pick<AgentContext, 'agentId' | 'engine' | 'turns' | 'session' | 'invites' | 'emit'>

interface OpenedFrame {
  readonly frame: DecodedFrame
  readonly member: Member
  readonly frameHash: Uint8Array
  readonly messageKey: Uint8Array
}

/** The position of a commit in the log. */
interface CommitPlace {
  readonly sender: AgentId
  readonly slot: bigint
  /** Whether its slot is the next one. An honest relay delivers no other. */
  readonly isInPlace: boolean
  /** How many leave notices it carries. */
  readonly left: number
}

/** The number of members remembered as reported for a newer version. */
const MOST_REPORTED = 1024

/** The reading side of a channel. */
export class Follower {
  readonly #context: FollowerContext
  readonly #channel: AgentChannel
  /** Members already reported to the application for using a newer version. */
  readonly #newer = new Set<AgentId>()
  readonly #disputes = new Disputes()

  constructor(context: FollowerContext, channel: AgentChannel) {
    this.#context = context
    this.#channel = channel
  }

  /** Processes the next entry. */
  follow(entry: LogEntry): void {
    const { intake } = this.#channel
    if (entry.case === 'gap') return this.#gap(entry.value)
    const { history } = this.#channel
    const index = Number(entry.value.index)
    const expected = history.position.index + 1
    const sender = toHex(entry.value.sender)
    const own = sender === this.#context.agentId
    if (index < expected) {
      if (!isAnother(history, entry, own)) return intake.repeated(index)
      return this.#channel.break(relayRolledBack(`entry ${index} differs from the one this agent already read`))
    }
    if (index > expected) return intake.missing(expected)
    switch (entry.case) {
      case 'deliverMessage':
        return own ? this.#ownMessage(entry.value) : this.#message(entry.value, sender)
      case 'deliverCommit':
        return own ? this.#ownCommit(entry.value) : this.#channel.turn.exclusively(() => this.#commit(entry.value))
      case 'deliverLeave':
        return this.#leave(entry.value)
    }
  }

  #ownMessage({ sender, messageId, index }: DeliverMessage): void {
    const channel = this.#channel
    const bodyHash = this.#channel.sender.pass(messageId, Number(index))
    if (bodyHash === undefined) return channel.break(StaticError.of('store_rolled_back'))
    const { history, group } = this.#channel
    history.advance({ kind: 'message', sender, messageId, bodyHash })
    history.sentHere(messageId)
    this.#channel.listedInvites.claims.passed(messageId)
    if (group?.isOwner === true) group.confirm()
    channel.turn.touchLater()
  }

  #message(entry: DeliverMessage, sender: AgentId): void {
    const channel = this.#channel
    const { history } = this.#channel
    const { receipts, upkeep } = this.#channel
    const opened = this.#open(entry, sender)
    const repeated = opened !== undefined && history.repeats(sender, opened.frame)
    let difference: Difference | undefined
    if (opened) {
      difference = history.judge(sender, opened.frame, Number(entry.counter))
      if (!repeated) history.record(sender, opened.frame, opened.frameHash)
      upkeep.othersReported()
    }
    history.advance(messageEntry(entry))
    channel.turn.touch()
    if (difference) channel.forks.found(sender, difference)
    if (!entry.control) upkeep.saw()
    if (!opened || opened.frame.version !== VERSION) receipts.missed(history.position.index)
    if (!opened || repeated) return
    const { member, frame, messageKey } = opened
    if (frame.version !== VERSION) return this.#unknownVersion(sender, frame.version)
    if (frame.kind === 'hello' || frame.kind === 'greeting') {
      this.#context.invites?.helloOrGreeting(this.#channel.id, frame.kind, sender, Uint8Array.from(frame.payload))
      return
    }
    deliverFrame(channel, frame, {
      index: history.position.index,
      messageId: Uint8Array.from(entry.messageId),
      sender,
      identity: member.identity,
      epoch: Number(this.#channel.group?.facts.epoch ?? 0n),
      receivedAt: Number(entry.acceptedAtMs),
      ciphertext: entry.ciphertext,
      messageKey,
    })
  }

  /** Decrypts a message. If it fails or contradicts its envelope, reports that and returns undefined. */
  #open(entry: DeliverMessage, sender: AgentId): OpenedFrame | undefined {
    const { group, history, name } = this.#channel
    if (!group) return undefined
    const index = Number(entry.index)
    const lastCounter = history.sender(sender)?.counter
    let isLimited = false
    try {
      const envelope = { sender, index, counter: Number(entry.counter), lastCounter }
      const { sender: member, plaintext, messageKey } = group.open(entry.ciphertext, envelope)
      const frame = decodeFrame(plaintext)
      this.#disputes.noteEpoch(sender, group.facts.epoch)
      if (frame && same(frame.messageId, entry.messageId)) {
        return { frame, member, frameHash: sha256(plaintext), messageKey }
      }
      if (!frame) history.recordNonFrame(sender, Number(entry.counter), sha256(plaintext))
    } catch (error) {
      if (!(error instanceof StaticError)) throw error
      isLimited = error.code === 'decryption_failure' && group.hasLostTrust(sender)
      const epoch = this.#context.engine.epochOf(entry.ciphertext)
      const isInPlace = Number(entry.slot) === history.position.slot
      if (epoch !== undefined) {
        this.#isElsewhere(group, epoch, { sender, isInPlace })
        this.#behind(group, epoch, { sender, isInPlace })
      }
    }
    this.#context.emit({ type: 'decryption_failure', channel: name, sender, index })
    if (isLimited) this.#context.emit({ type: 'sender_unreadable', channel: name, sender })
    return undefined
  }

  /** Reports a member with a newer version, once. Its chain, counter and `seen` are still tracked. */
  #unknownVersion(sender: AgentId, version: number): void {
    if (this.#newer.has(sender)) return
    if (this.#newer.size >= MOST_REPORTED) this.#newer.clear()
    this.#newer.add(sender)
    this.#context.emit({ type: 'unknown_version', channel: this.#channel.name, sender, version })
  }

  #ownCommit({ sender, messageId }: DeliverCommit): void {
    const channel = this.#channel
    const pending = this.#channel.committer.arrive(messageId)
    if (!pending) return channel.break(StaticError.of('store_rolled_back'))
    this.#channel.history.advance({ kind: 'commit', sender, messageId, bodyHash: pending.record.bodyHash })
    channel.committed(pending)
  }

  async #commit(entry: DeliverCommit): Promise<void> {
    const channel = this.#channel
    const { engine } = this.#context
    const { intake, committer, upkeep } = this.#channel
    await this.#context.turns?.wait(() => committer.isWaitedFor)
    const { group, history } = this.#channel
    if (!group) return
    const { commit, messageId, slot } = entry
    const sender = toHex(entry.sender)
    const body = signedDeclaration(entry)
    const member = group.members.get(sender)
    if (member) {
      const place = { channelId: this.#channel.channelId, slot, messageId, commitHash: sha256(commit) }
      if (!ed25519.verifier(member.signatureKey)(declarationBytes(place, body), body.signature)) {
        throw StaticError.of(
          'mls_error',
          'The declaration of a commit has an invalid signature: the relay has changed it.',
        )
      }
    }
    const result = await engine.process(group.group, commit, { declaration: body, declarer: entry.sender })
    if (this.#channel.group !== group) {
      // The membership ended in the meantime.
      if (result.kind === 'accepted' && result.next) wipeEpoch(engine, result.next)
      return
    }
    const isInPlace = Number(slot) === history.position.slot
    history.advance(commitEntry(entry))
    intake.raiseHead(history.position.slot)
    committer.rollBack()
    channel.turn.touch()
    upkeep.saw()
    this.#judged(result, group, { sender, slot, isInPlace, left: body.leaveNotices.length })
  }

  #judged(result: Processed, group: GroupState, place: CommitPlace): void {
    const channel = this.#channel
    const { sender } = place
    switch (result.kind) {
      case 'accepted': {
        const added = result.added.filter(({ founder }) => !founder).map(({ agentId }) => toHex(agentId))
        if (!result.next) {
          if (added.includes(this.#context.agentId)) this.#channel.intake.leaveLast()
          return channel.over()
        }
        const removed = result.removed.map(({ agentId }) => toHex(agentId))
        this.#disputes.followed(group.facts.epoch, sender, Number(place.slot))
        return channel.adopt(result.next, { by: sender, added, removed, left: place.left, vouched: [] })
      }
      case 'other_epoch':
        if (!this.#isElsewhere(group, result.epoch, place)) this.#skipped(group, place, 'other_epoch')
        this.#behind(group, result.epoch, place)
        return
      case 'rejected':
        // Signed in this epoch, even though invalid.
        if (result.sender && !group.place.doubted.includes(sender)) group.endDoubt()
        return this.#skipped(group, place, result.reason)
      case 'undecryptable':
        if (!this.#isElsewhere(group, group.facts.epoch, place)) this.#skipped(group, place, 'undecryptable')
        return
      case 'unfollowable':
        group.doubt(sender)
        // Shows the owner that this agent did not follow, before the owner's next message ends the channel here.
        if (!group.isOwner && place.isInPlace) this.#channel.upkeep.speak()
        return this.#skipped(group, place, 'unfollowable')
    }
  }

  /**
   * Whether an undecryptable message or commit shows that this agent is not in the owner's epoch. If so, the channel
   * ends. `epoch` is the epoch number on the message or commit.
   */
  #isElsewhere(
    group: GroupState,
    epoch: bigint,
    { sender, isInPlace }: Pick<CommitPlace, 'sender' | 'isInPlace'>,
  ): boolean {
    const own = group.facts.epoch
    if (epoch > own && (!isInPlace || group.isLeftBehind(sender))) {
      this.#channel.break(
        StaticError.of('mls_error', 'Other members accepted a commit that this agent could not follow.'),
      )
      return true
    }
    // It is in its place, so the owner has seen the same commits as this agent but followed different ones.
    if (epoch > own || !isInPlace || sender !== this.#channel.owner) return false
    if (epoch === own && !group.isOwnerElsewhere()) return false
    const text =
      'The owner has followed different commits than this agent. Leave the channel and ask the owner to add you again.'
    this.#channel.break(StaticError.of('mls_error', text))
    return true
  }

  /** As the owner: reports a member that has received the latest commits but sends in an epoch before one of them. */
  #behind(group: GroupState, epoch: bigint, { sender, isInPlace }: Pick<CommitPlace, 'sender' | 'isInPlace'>): void {
    if (!group.isOwner || !isInPlace || !group.members.has(sender)) return
    const dispute = this.#disputes.behind(sender, epoch)
    const committer = dispute && group.members.get(dispute.sender)
    if (!committer) return
    const { identity } = committer
    this.#context.emit({ type: 'commit_disputed', channel: this.#channel.name, identity, ...dispute })
  }

  /**
   * Skips a commit. A member that knows that its own epoch is the group's votes to reject the commit; the owner's vote
   * alone makes the relay undo it. Other members do not vote while a commit is in doubt, nor about another epoch before
   * the owner has sent in this one, because that epoch may be the owner's. No one votes on a commit misplaced by the
   * relay.
   */
  #skipped(group: GroupState, place: CommitPlace, reason: string): void {
    const { sender, slot, isInPlace } = place
    const { name, channelId } = this.#channel
    this.#context.emit({ type: 'commit_skipped', channel: name, sender, slot: Number(slot), reason })
    const { isProven, doubted } = group.place
    const isElsewhere = reason === 'other_epoch' && !group.isConfirmed
    const isFirst = !group.allLeftOut.includes(sender)
    group.leaveOut(sender)
    if (!isProven || !isInPlace || (!group.isOwner && (doubted.length > 0 || isElsewhere))) return
    const value = message(RejectCommitRequestSchema, { channelId, slot })
    // A lost or refused vote changes nothing here.
    this.#context.session.request({ case: 'rejectCommit', value }, () => {})
    if (!group.isOwner || (reason !== 'unfollowable' && !isElsewhere)) return
    // Honest members may be in either epoch, as this one may have been, so no one is barred for it before the owner
    // sends. Only once, and not if another commit has earned the bar.
    if (isElsewhere && isFirst) this.#liftBar(sender)
    this.#channel.upkeep.speak()
  }

  #liftBar(member: AgentId): void {
    const { channelId } = this.#channel
    const value = message(LiftBarRequestSchema, { channelId, agentId: fromHex(member) })
    this.#context.session.request({ case: 'liftBar', value }, () => {})
  }

  #leave(entry: DeliverLeave): void {
    const { sender } = entry
    const { history } = this.#channel
    history.advance(leaveEntry(entry))
    this.#channel.turn.touch()
    // The leave is from another copy of this agent, or from before this Welcome was used.
    if (toHex(sender) === this.#context.agentId) return this.#channel.over()
    const { roster, listedInvites } = this.#channel
    roster.leave(sender, leaveNotice(entry), history.position.slot)
    const agent = toHex(sender)
    if (roster.notice(agent)) listedInvites.left(agent)
  }

  /**
   * Handles entries that were deleted. The relay counts from its own cursor, which is behind this agent's position if
   * an acknowledgement was lost. So only entries beyond the position are missing here. The slots, not the notice's
   * flag, show whether a commit is among them.
   */
  #gap({ firstIndex, position, commitLost, ended, last }: GapNotice): void {
    const channel = this.#channel
    const { intake } = this.#channel
    const { index, slot } = this.#channel.history.position
    const first = Number(firstIndex)
    const to = {
      index: Number(position?.index ?? 0n),
      hash: Uint8Array.from(position?.hash ?? []),
      slot: Number(position?.slot ?? 0n),
    }
    if (to.index <= index) return intake.repeated(first)
    if (first > index + 1) return intake.missing(index + 1)
    this.#context.emit({ type: 'gap', channel: this.#channel.name, first: index + 1, last: to.index })
    if (ended && (last || to.slot !== slot)) {
      this.#channel.history.skipTo(to)
      return channel.over()
    }
    if (to.slot !== slot && commitLost) {
      return channel.break(
        StaticError.of(
          'mls_error',
          'A group change was deleted before this agent fetched it, because the agent was offline too long.',
        ),
      )
    }
    if (to.slot !== slot) {
      return channel.break(StaticError.of('fork_detected', 'The relay hides a group change in a gap.'))
    }
    if (this.#channel.history.skipTo(to).length > 0) this.#channel.upkeep.othersReported()
    this.#channel.receipts.missed(to.index)
    this.#channel.listedInvites.missed()
    channel.turn.touch()
  }
}
