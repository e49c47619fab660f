/**
 * Follows a channel's log: takes its entries in their order, one at a time, messages at once, commits when MLS has
 * followed them. It changes what is in memory; whoever owns it writes that down at the end of the turn.
 */
import { commitBody, declarationBytes, leaveBody, type LeaveNoticeFields, StaticError, toHex } from '@static/protocol'
import type { DeliverCommit, DeliverLeave, DeliverMessage, GapNotice } from '@static/protocol/relay'
import { ed25519, type Epoch, type Member, type Processed } from '../../mls/index.ts'
import type { AgentId } from '../../ports.ts'
import { same } from '../bytes.ts'
import type { Committer } from './committer.ts'
import type { Pending } from './commits.ts'
import { decodeFrame, type Frame } from './message-frame.ts'
import { type GroupState, wipeEpoch } from './group-state.ts'
import { type Difference, type History, sha256 } from './history.ts'
import type { Incoming } from './inbox.ts'
import type { Roster } from './roster.ts'
import type { Sender } from './sender.ts'
import type { World } from '../agent/context.ts'

/** An entry of the log, or a notice in its place. */
export type LogEntry =
  | { readonly case: 'deliverMessage'; readonly value: DeliverMessage }
  | { readonly case: 'deliverCommit'; readonly value: DeliverCommit }
  | { readonly case: 'deliverLeave'; readonly value: DeliverLeave }
  | { readonly case: 'gap'; readonly value: GapNotice }

/** What a follower asks of its membership. */
export interface FollowerHost {
  readonly world: World
  readonly channelId: Uint8Array
  readonly name: string
  readonly isOwn: boolean
  readonly history: History
  readonly group: GroupState | undefined
  readonly sender: Sender
  readonly committer: Committer
  readonly roster: Roster
  touch(): void
  touchLater(): void
  headIs(head: number): void
  exclusively(task: () => Promise<void>): void
  /** The next epoch, of an own commit or another's. */
  adopt(epoch: Epoch): void
  /** An own commit is in the log and adopted. */
  committed(pending: Pending): void
  /** Members were added or removed. */
  changed(by: AgentId, added: readonly AgentId[], removed: readonly AgentId[]): void
  /** What is known of a sender has changed. */
  heard(sender: AgentId): void
  arrived(incoming: Omit<Incoming, 'redelivered'>): void
  /** A message of the SDK itself. */
  greeted(kind: 'hello' | 'greeting', sender: AgentId, payload: Uint8Array): void
  /** Something was seen that nobody was told of. */
  saw(): void
  forked(member: AgentId, difference: Difference): void
  /** Entries are missing before this one. */
  missing(index: number): void
  /** An entry has come again: the relay has not heard how far this agent is. */
  repeated(index: number): void
  over(): void
  break(error: StaticError): void
}

interface Opened {
  readonly frame: Frame
  readonly member: Member
  readonly frameHash: Uint8Array
  readonly messageKey: Uint8Array
}

const NO_NOTICE: LeaveNoticeFields = { publicKey: new Uint8Array(), slot: 0n, signature: new Uint8Array() }

/** The reading side of a membership. */
export class Follower {
  readonly #host: FollowerHost

  constructor(host: FollowerHost) {
    this.#host = host
  }

  /** Takes the next entry. */
  take(entry: LogEntry): void {
    const host = this.#host
    if (entry.case === 'gap') return this.#gap(entry.value)
    const index = Number(entry.value.index)
    const expected = host.history.position.index + 1
    if (index < expected) return host.repeated(index)
    if (index > expected) return host.missing(expected)
    const own = toHex(entry.value.sender) === host.world.agentId
    switch (entry.case) {
      case 'deliverMessage':
        return own ? this.#ownMessage(entry.value) : this.#message(entry.value)
      case 'deliverCommit':
        return own ? this.#ownCommit(entry.value) : host.exclusively(() => this.#commit(entry.value))
      case 'deliverLeave':
        return this.#leave(entry.value)
    }
  }

  #ownMessage({ sender, messageId }: DeliverMessage): void {
    const host = this.#host
    const bodyHash = host.sender.pass(messageId)
    if (bodyHash === undefined) return host.break(StaticError.of('store_rolled_back'))
    host.history.advance({ kind: 'message', sender, messageId, bodyHash })
    host.touchLater()
  }

  #message(entry: DeliverMessage): void {
    const host = this.#host
    const { history } = host
    const { messageId, ciphertext } = entry
    const sender = toHex(entry.sender)
    const opened = this.#open(entry, sender)
    const repeated = opened !== undefined && history.repeats(sender, opened.frame)
    let difference: Difference | undefined
    if (opened) {
      difference = opened.frame.counter === Number(entry.counter) ? history.judge(sender, opened.frame) : 'counter'
      if (!repeated) history.heard(sender, opened.frame, opened.frameHash)
      host.heard(sender)
    }
    history.advance({ kind: 'message', sender: entry.sender, messageId, bodyHash: sha256(ciphertext) })
    host.touch()
    if (difference) host.forked(sender, difference)
    if (!entry.control) host.saw()
    if (!opened || repeated) return
    const { member, frame, messageKey } = opened
    if (frame.kind === 'hello' || frame.kind === 'greeting') {
      return host.greeted(frame.kind, sender, Uint8Array.from(frame.payload))
    }
    if (frame.kind !== 'payload') return
    host.arrived({
      record: {
        index: history.position.index,
        messageId: Uint8Array.from(messageId),
        sender,
        identity: member.identity,
        epoch: Number(host.group?.facts.epoch ?? 0n),
        receivedAt: Number(entry.acceptedAtMs),
        ciphertext,
        messageKey,
      },
      payload: frame.payload,
    })
  }

  /** Opens a message; undefined, and told, when it cannot be opened or is not what its envelope says. */
  #open(entry: DeliverMessage, sender: AgentId): Opened | undefined {
    const { world, group, name } = this.#host
    if (!group) return undefined
    try {
      const { sender: member, plaintext, messageKey } = group.open(entry.ciphertext)
      const frame = decodeFrame(plaintext)
      if (frame && same(frame.messageId, entry.messageId) && same(member.agentId, entry.sender)) {
        return { frame, member, frameHash: sha256(plaintext), messageKey }
      }
    } catch (error) {
      if (!(error instanceof StaticError)) throw error
      const epoch = world.engine.epochOf(entry.ciphertext)
      if (epoch !== undefined && epoch > group.facts.epoch) {
        this.#host.break(StaticError.of('mls_error', 'The others are in an epoch that this agent could not follow.'))
      }
    }
    world.emit({ type: 'decryption_failure', channel: name, sender, index: Number(entry.index) })
    return undefined
  }

  #ownCommit({ sender, messageId }: DeliverCommit): void {
    const host = this.#host
    const pending = host.committer.take(messageId)
    if (!pending) return host.break(StaticError.of('store_rolled_back'))
    host.history.advance({ kind: 'commit', sender, messageId, bodyHash: pending.record.bodyHash })
    host.adopt(pending.next)
    host.committed(pending)
  }

  async #commit(entry: DeliverCommit): Promise<void> {
    const host = this.#host
    const { world, group, history } = host
    if (!group) return
    const { declaration, commit, messageId, slot } = entry
    const sender = toHex(entry.sender)
    const body = { adds: [], removes: [], leaveNotices: [], signature: new Uint8Array(), ...declaration }
    const member = group.members.get(sender)
    if (member) {
      const place = { channelId: host.channelId, slot, messageId, commitHash: sha256(commit) }
      if (!ed25519.verifier(member.signatureKey)(declarationBytes(place, body), body.signature)) {
        throw StaticError.of('mls_error', 'The relay has changed what a commit declares.')
      }
    }
    const result = await world.engine.process(group.group, commit, { declaration: body, declarer: entry.sender })
    if (host.group !== group) {
      // Left, removed or deleted meanwhile.
      if (result.kind === 'accepted' && result.next) wipeEpoch(world.engine, result.next)
      return
    }
    history.advance({ kind: 'commit', sender: entry.sender, messageId, bodyHash: sha256(commitBody(commit, body)) })
    host.headIs(history.position.slot)
    host.committer.rollBack()
    host.touch()
    host.saw()
    this.#judged(result, sender, slot)
  }

  #judged(result: Processed, sender: AgentId, slot: bigint): void {
    const host = this.#host
    switch (result.kind) {
      case 'accepted': {
        if (!result.next) return host.over()
        host.adopt(result.next)
        const added = result.added.filter(({ founder }) => !founder).map(({ agentId }) => toHex(agentId))
        return host.changed(
          sender,
          added,
          result.removed.map(({ agentId }) => toHex(agentId)),
        )
      }
      case 'other_epoch':
        if (host.group && result.epoch > host.group.facts.epoch) {
          return host.break(StaticError.of('mls_error', 'The others took a commit that this agent has left out.'))
        }
        return this.#skipped(sender, slot, 'other_epoch')
      case 'rejected':
        return this.#skipped(sender, slot, result.reason)
      case 'undecryptable':
        return this.#skipped(sender, slot, 'undecryptable')
    }
  }

  /** Everybody leaves this commit out. Who has heard others in this epoch knows that it is theirs, and says so. */
  #skipped(sender: AgentId, slot: bigint, reason: string): void {
    const { world, name, isOwn, group, channelId } = this.#host
    world.emit({ type: 'commit_skipped', channel: name, sender, slot: Number(slot), reason })
    // The owner's word alone undoes a commit: that is for the application to say.
    if (isOwn || !group?.heardOthers) return
    const value = { $typeName: 'static.relay.v1.RejectCommitRequest', channelId, slot } as const
    // A vote that is lost or refused changes nothing here.
    world.session.request({ case: 'rejectCommit', value }, () => {})
  }

  #leave({ sender, notice }: DeliverLeave): void {
    const { history, roster, world } = this.#host
    const fields = notice ?? NO_NOTICE
    history.advance({ kind: 'leave', sender, messageId: new Uint8Array(), bodyHash: sha256(leaveBody(fields)) })
    this.#host.touch()
    // Left by another copy of this agent, or before this Welcome was used.
    if (toHex(sender) === world.agentId) return this.#host.over()
    roster.leave(sender, fields, history.position.slot)
  }

  #gap({ firstIndex, position, commitLost }: GapNotice): void {
    const host = this.#host
    const { index, slot } = host.history.position
    const first = Number(firstIndex)
    const to = {
      index: Number(position?.index ?? 0n),
      hash: Uint8Array.from(position?.hash ?? []),
      slot: Number(position?.slot ?? 0n),
    }
    if (to.index <= index) return
    if (first !== index + 1) return host.missing(index + 1)
    host.world.emit({ type: 'gap', channel: host.name, first, last: to.index })
    if (commitLost) {
      return host.break(
        StaticError.of('mls_error', 'A change of the group was lost while this agent was away too long.'),
      )
    }
    if (to.slot !== slot) {
      return host.break(StaticError.of('fork_detected', 'The relay hides a change of the group behind a gap.'))
    }
    for (const agent of host.history.skipTo(to)) host.heard(agent)
    host.touch()
  }
}
