/**
 * The approvals of one channel (SPEC.md, 5.11): those that this agent has asked for, and those that it is asked for.
 * A request is on disk in the transaction that encrypts it, or that takes it in; so is a decision. The asker alone
 * decides the outcome, and it is on disk before anyone is told. Nothing of it is ever given to a reader of messages.
 */
import { StaticError, toHex } from '@static/protocol'
import type { AgentContext } from '../../agent/context.ts'
import type { AgentEvent } from '../../agent/events.ts'
import { type Choice, decodeDecision, isDecisionOf, makeDecision } from '../../approvals/decision.ts'
import {
  type ApprovalRequest,
  approvalHash,
  decodeApproval,
  encodeApproval,
  REQUEST_ID_BYTES,
} from '../../approvals/request.ts'
import { same } from '../../platform/bytes.ts'
import type {
  AgentId,
  ApprovalEventRecord,
  ApprovalRecord,
  Change,
  InboxRecord,
  StoredChannel,
  Time,
} from '../../ports/index.ts'
import type { AgentChannel } from '../channel.ts'
import { Part, type RosterChange } from '../part.ts'
import { newMessageId } from '../sending/message-id.ts'
import { limitSend, type SendLimits } from '../sending/send-wait.ts'
import { type FinalState, HeldApproval } from './held-approval.ts'

/** The longest time from asking to the deadline. */
export const MOST_WAIT_MS: number = 7 * 24 * 3_600_000
/** How far the clocks of two agents may be apart for the longest deadline. */
const CLOCKS_APART_MS = 3_600_000
/** Open requests of one asker, and requests of others in all, open or over. */
const MOST_OPEN = 8
const MOST_OF_OTHERS = 64
/** This agent's own, open or over; and how long one is kept after its deadline. */
const MOST_OWN = 64
const KEPT_MS = 7 * 24 * 3_600_000
/** The clock of an open approval is put on disk this often. */
const CLOCK_MS = 30_000
const NOTHING = new Uint8Array()

type ApprovalsContext = Pick<AgentContext, 'agentId' | 'key' | 'sign' | 'now' | 'random' | 'later' | 'emit'>
type IgnoredReason = Extract<AgentEvent, { readonly type: 'approval_ignored' }>['reason']
/** What an application asks for. */
export type NewApproval = Pick<ApprovalRequest, 'need' | 'from' | 'title' | 'text' | 'risk' | 'action'> & {
  readonly waitMs: number
}

/** The approvals of one channel. */
export class Approvals extends Part {
  readonly #context: ApprovalsContext
  readonly #channel: AgentChannel
  /** By id, the oldest first. */
  readonly #held = new Map<string, HeldApproval>()
  #changes: Change[] = []
  /** Those whose outcome is not on disk: not drained yet, and drained. */
  #decided: HeldApproval[] = []
  #drained: HeldApproval[] = []
  /** How many of this agent's own the relay has not answered yet. */
  #asking = 0
  #ended: StaticError | undefined

  constructor(
    context: ApprovalsContext,
    channel: AgentChannel,
    stored: Pick<StoredChannel, 'approvals' | 'approvalRequests' | 'approvalEvents'>,
  ) {
    super()
    this.#context = context
    this.#channel = channel
    const requests = new Map(stored.approvalRequests.map(({ hash, request }) => [toHex(hash), request]))
    for (const record of stored.approvals) {
      // One that this version does not read is left alone: it permits nothing.
      const held = HeldApproval.of(record, requests.get(toHex(record.hash)) ?? NOTHING)
      if (!held) continue
      this.#held.set(held.id, held)
      this.#wait(held)
    }
    for (const event of stored.approvalEvents) this.#held.get(toHex(event.hash))?.events.push(event)
  }

  isOwn({ request }: HeldApproval): boolean {
    return request.asker === this.#context.agentId
  }

  /** This agent's own, also those that are over, and those of others whose deadline has not come. */
  list(): readonly HeldApproval[] {
    this.tick()
    return [...this.#held.values()]
  }

  /** The time that counts for an approval: it never goes back. */
  clockOf({ record }: HeldApproval): Time {
    return Math.max(this.#context.now(), record.clock)
  }

  // ---- What this agent asks for ----

  /**
   * Asks. Resolves when the relay has stored the request.
   *
   * @throws {StaticError} `invalid_request`, `not_found`, `queue_full`; see `Sender.send`
   */
  async request({ waitMs, ...wanted }: NewApproval, { signal }: Pick<SendLimits, 'signal'>): Promise<HeldApproval> {
    if (this.#ended) throw this.#ended
    this.#checkDeciders(wanted.from)
    this.#makeRoomForOwn()
    const now = this.#context.now()
    const bytes = encodeApproval({
      ...wanted,
      channelId: this.#channel.channelId,
      asker: this.#context.agentId,
      requestId: this.#context.random(REQUEST_ID_BYTES),
      deadline: now + waitMs,
    })
    const held = this.#made(bytes, NOTHING)
    this.#asking++
    try {
      await this.#send('approval', bytes, { signal, timeoutMs: waitMs }, held, {
        sealed: () => this.#hold(held),
        undone: () => this.#drop(held),
      })
    } finally {
      this.#asking--
    }
    return held
  }

  /**
   * Resolves with the outcome once it is on disk.
   *
   * @throws {StaticError} `cancelled`, or the error that ended the channel
   */
  async outcome(held: HeldApproval, limits: SendLimits): Promise<FinalState> {
    this.#judge(held)
    const late = Promise.withResolvers<never>()
    const forget = limitSend(this.#context, limits, (cause, reason) => {
      const text = `The wait for the decision was ended. The request stays open until its deadline. ${reason}`
      late.reject(StaticError.of('cancelled', text, { cause }))
    })
    try {
      await Promise.race([held.over.promise, late.promise])
    } finally {
      forget?.()
    }
    return held.record.outcome as FinalState
  }

  /**
   * Uses the permission: resolves with the action once it is recorded that it is used, here and by a message that the
   * relay has accepted. An older copy of this agent's database then contradicts the relay, so it spends nothing.
   *
   * @throws {StaticError} `not_allowed` unless it is approved and not used
   */
  async spend(held: HeldApproval, limits: SendLimits): Promise<Uint8Array> {
    const { state } = held.outcome(this.clockOf(held))
    if (!this.isOwn(held)) throw StaticError.of('not_allowed', 'Only the agent that asked for an approval can use it.')
    if (held.record.outcome !== 'approved')
      throw StaticError.of('not_allowed', `The approval cannot be used: it is ${state}, not approved.`)
    this.#checkHeld(held)
    if (held.record.isSpent || held.isBusy)
      throw StaticError.of('not_allowed', 'The approval is used. One approval permits one execution: ask again.')
    await this.#send('heartbeat', NOTHING, limits, held, {
      sealed: () => this.#put(held, { isSpent: true }),
      // Whether or not it was sent, the caller has not got the action.
      undone: () => {},
    })
    return Uint8Array.from(held.request.action)
  }

  // ---- What this agent is asked for ----

  /**
   * Decides. Resolves when the relay has stored the decision.
   *
   * @throws {StaticError} `not_allowed` after the deadline, or if this agent has decided; see `Sender.send`
   */
  async decide(held: HeldApproval, choice: Choice, attended: boolean): Promise<void> {
    const { agentId, key } = this.#context
    const { deadline } = held.request
    const time = this.#context.now()
    if (this.isOwn(held))
      throw StaticError.of('not_allowed', 'The agent that asks for an approval cannot decide on it.')
    this.#checkHeld(held)
    if (held.isBusy || held.hasDecided(agentId))
      throw StaticError.of('not_allowed', 'This agent has decided. The first decision is final.')
    if (time >= deadline)
      throw StaticError.of(
        'not_allowed',
        `The deadline has passed: ${new Date(deadline).toISOString()}. Nothing was sent.`,
      )
    const { hash } = held.record
    const decision = makeDecision({ hash, choice, time, attended }, agentId, (bytes) => this.#context.sign(bytes))
    const identity = this.#channel.group?.members.get(agentId)?.identity ?? NOTHING
    await this.#send('decision', decision, { timeoutMs: deadline - time }, held, {
      sealed: () => this.#add(held, { agent: agentId, what: choice, decision, publicKey: key.publicKey, identity }),
      undone: () => this.#takeBack(held, agentId),
    })
  }

  // ---- What members send ----

  /** Handles a verified frame of a member. */
  arrive(kind: 'approval' | 'decision', record: InboxRecord, payload: Uint8Array): void {
    const reason = kind === 'approval' ? this.#asked(record, payload) : this.#decision(record, payload)
    if (reason === undefined) return
    const { sender, index } = record
    this.#context.emit({ type: 'approval_ignored', channel: this.#channel.name, sender, index, reason })
  }

  #asked({ sender, identity }: InboxRecord, payload: Uint8Array): IgnoredReason | undefined {
    const request = decodeApproval(payload)
    if (!request) return undefined
    if (request.asker !== sender) return 'not_asker'
    if (!same(request.channelId, this.#channel.channelId)) return 'elsewhere'
    if (!request.from.includes(this.#context.agentId)) return undefined
    const left = request.deadline - this.#context.now()
    if (left <= 0 || left > MOST_WAIT_MS + CLOCKS_APART_MS) return 'late'
    // A copy, because the frame is only lent.
    const held = this.#made(Uint8Array.from(payload), Uint8Array.from(identity))
    if (this.#held.has(held.id)) return 'repeated'
    if (this.#of(sender).filter((each) => this.#isPending(each)).length >= MOST_OPEN) return 'too_many'
    this.#makeRoomFor(sender)
    this.#hold(held)
    this.#context.emit({ type: 'approval_requested', channel: this.#channel.name, asker: sender, approval: held.id })
    return undefined
  }

  #decision({ sender, identity }: InboxRecord, payload: Uint8Array): IgnoredReason | undefined {
    const decision = decodeDecision(payload)
    const held = decision && this.#held.get(toHex(decision.hash))
    if (!held) return undefined
    const { from, deadline } = held.request
    if (!from.includes(sender)) return 'not_asked'
    if (held.hasDecided(sender)) return 'repeated'
    if (this.clockOf(held) >= deadline || decision.time >= deadline) return 'late'
    const publicKey = this.#channel.group?.members.get(sender)?.signatureKey
    if (!publicKey || !isDecisionOf(decision, sender, publicKey)) return 'invalid'
    const { choice } = decision
    this.#add(held, {
      agent: sender,
      what: choice,
      // Copies, because the frame is only lent.
      decision: Uint8Array.from(payload),
      publicKey: Uint8Array.from(publicKey),
      identity: Uint8Array.from(identity),
    })
    const { name: channel } = this.#channel
    this.#context.emit({ type: 'approval_decided', channel, member: sender, approval: held.id, choice })
    return undefined
  }

  /** A member that is gone does not decide, and no one executes what an asker that is gone asked for. */
  override change({ removed }: RosterChange): void {
    for (const held of this.#held.values()) {
      if (removed.includes(held.request.asker)) {
        this.#drop(held)
        continue
      }
      for (const agent of held.request.from.filter((each) => removed.includes(each) && !held.hasLost(each)))
        this.#add(held, { agent, what: 'removed', decision: NOTHING, publicKey: NOTHING, identity: NOTHING })
    }
  }

  // ---- Time ----

  /** Called regularly: notes the time, and forgets what is over. */
  tick(): void {
    if (this.#ended) return
    for (const held of this.#held.values()) {
      const clock = this.clockOf(held)
      const { deadline } = held.request
      if (this.isOwn(held) ? clock >= deadline + KEPT_MS && !held.isBusy : clock >= deadline) this.#drop(held)
      else if (this.#isOpen(held) && clock >= held.record.clock + CLOCK_MS) this.#put(held, { clock })
      this.#judge(held)
    }
  }

  /** Looks again when the deadline comes. */
  #wait(held: HeldApproval): void {
    if (!this.#isOpen(held)) return
    const left = Math.max(1, held.request.deadline - this.clockOf(held))
    held.stop = this.#context.later(left, () => {
      this.#judge(held)
      this.#wait(held)
    })
  }

  /** Whether it has no outcome, as far as this agent sees. */
  #isPending(held: HeldApproval): boolean {
    return held.outcome(this.clockOf(held)).state === 'pending'
  }

  #isOpen(held: HeldApproval): boolean {
    return this.isOwn(held) && held.record.outcome === undefined && !this.#ended
  }

  /** Records the outcome of this agent's own approval, if there is one. */
  #judge(held: HeldApproval): void {
    if (!this.#isOpen(held) || !this.#held.has(held.id)) return
    const clock = this.clockOf(held)
    const { state } = held.outcome(clock)
    if (state === 'pending') return
    this.#put(held, { outcome: state, clock })
    held.stop()
    this.#decided.push(held)
  }

  // ---- The disk ----

  override drain(): readonly Change[] {
    const changes = this.#changes
    this.#changes = []
    this.#drained.push(...this.#decided.splice(0))
    return changes
  }

  /** Only now is the outcome told. */
  override written(): void {
    for (const held of this.#drained.splice(0)) {
      held.over.resolve()
      const decision = held.record.outcome as FinalState
      this.#context.emit({ type: 'approval_over', channel: this.#channel.name, approval: held.id, decision })
    }
  }

  override end(error: StaticError): void {
    this.#ended ??= error
    for (const held of this.#held.values()) {
      held.stop()
      held.over.reject(error)
    }
  }

  /**
   * Sends a frame about an approval. `sealed` is called in the transaction that encrypts it, `undone` if the relay then
   * refuses it.
   */
  async #send(
    kind: 'approval' | 'decision' | 'heartbeat',
    payload: Uint8Array,
    limits: SendLimits,
    held: HeldApproval,
    { sealed, undone }: { readonly sealed: () => void; readonly undone: () => void },
  ): Promise<void> {
    held.isBusy = true
    try {
      await this.#channel.sender.send(kind, payload, limits, { messageId: newMessageId(this.#context), sealed })
    } catch (error) {
      const { code } = StaticError.from(error)
      // Otherwise it may still arrive.
      if (!this.#ended && code !== 'send_pending') undone()
      throw error
    } finally {
      held.isBusy = false
    }
  }

  #made(bytes: Uint8Array, identity: Uint8Array): HeldApproval {
    const now = this.#context.now()
    const times = { since: now, clock: now }
    const record = { hash: approvalHash(bytes), identity, ...times, outcome: undefined, isSpent: false }
    const held = HeldApproval.of(record, bytes)
    if (held) return held
    throw StaticError.of('invalid_request', 'The request is not within the limits of approvals.')
  }

  #hold(held: HeldApproval): void {
    this.#held.set(held.id, held)
    const { id } = this.#channel
    const { hash } = held.record
    this.#change(
      { type: 'putApproval', id, record: held.record },
      { type: 'putApprovalRequest', id, record: { hash, request: held.bytes } },
    )
    this.#wait(held)
  }

  #put(held: HeldApproval, fields: Partial<Pick<ApprovalRecord, 'clock' | 'outcome' | 'isSpent'>>): void {
    if (!this.#held.has(held.id)) return
    held.record = { ...held.record, ...fields }
    this.#change({ type: 'putApproval', id: this.#channel.id, record: held.record })
  }

  #add(held: HeldApproval, event: Omit<ApprovalEventRecord, 'hash' | 'number' | 'at'>): void {
    if (!this.#held.has(held.id)) return
    const number = (held.events.at(-1)?.number ?? 0) + 1
    const record = { ...event, hash: held.record.hash, number, at: this.clockOf(held) }
    held.events.push(record)
    this.#change({ type: 'putApprovalEvent', id: this.#channel.id, record })
    this.#judge(held)
  }

  /** The relay has refused this agent's decision, so no one has it. */
  #takeBack(held: HeldApproval, agent: AgentId): void {
    const at = held.events.findIndex((event) => event.agent === agent && event.what !== 'removed')
    const [event] = at < 0 ? [] : held.events.splice(at, 1)
    if (!event || !this.#held.has(held.id)) return
    const { hash, number } = event
    this.#change({ type: 'dropApprovalEvent', id: this.#channel.id, hash, number })
  }

  #drop(held: HeldApproval): void {
    if (!this.#held.delete(held.id)) return
    held.stop()
    this.#change({ type: 'dropApproval', id: this.#channel.id, hash: held.record.hash })
  }

  #change(...changes: readonly Change[]): void {
    this.#changes.push(...changes)
    this.#channel.turn.touchPart()
  }

  // ---- Bounds ----

  /** What is forgotten cannot be recorded, so it could be used or decided again and again. */
  #checkHeld({ id }: HeldApproval): void {
    if (this.#held.has(id)) return
    throw StaticError.of(
      'not_allowed',
      `Approval ${id} is forgotten: it is over, others have taken its place, or its asker was removed. Ask again.`,
    )
  }

  #of(asker: AgentId): readonly HeldApproval[] {
    return [...this.#held.values()].filter(({ request }) => request.asker === asker)
  }

  #checkDeciders(from: readonly AgentId[]): void {
    const { group, name } = this.#channel
    if (from.includes(this.#context.agentId))
      throw StaticError.of('invalid_request', '`from` names this agent. The one who asks cannot decide.')
    const stranger = from.find((agent) => group?.members.has(agent) !== true)
    if (stranger !== undefined)
      throw StaticError.of('not_found', `Agent ${stranger} is not a member of channel ${name}.`)
  }

  /** Others hold as many open requests of this agent, so more would be asked in vain. */
  #makeRoomForOwn(): void {
    const own = this.#of(this.#context.agentId)
    const open = own.filter((held) => this.#isOpen(held) && !held.isBusy)
    if (open.length + this.#asking >= MOST_OPEN) {
      const text = `This agent waits for ${MOST_OPEN} approvals in channel ${this.#channel.name}, the limit. Wait for one of them.`
      throw StaticError.of('queue_full', text)
    }
    const oldest = own.find((held) => held.record.outcome !== undefined && !held.isBusy)
    if (own.length >= MOST_OWN && oldest) this.#drop(oldest)
  }

  /**
   * Forgets the oldest request that is over or, without one, the oldest of the asker with the most: a member can push
   * out only its own.
   */
  #makeRoomFor(asker: AgentId): void {
    const others = [...this.#held.values()].filter((held) => !this.isOwn(held) && !held.isBusy)
    if (others.length < MOST_OF_OTHERS) return
    const count = ({ request }: HeldApproval): number =>
      this.#of(request.asker).length + (request.asker === asker ? 1 : 0)
    const most = Math.max(...others.map(count))
    const oldest = others.find((held) => !this.#isPending(held)) ?? others.find((held) => count(held) === most)
    if (oldest) this.#drop(oldest)
  }
}
