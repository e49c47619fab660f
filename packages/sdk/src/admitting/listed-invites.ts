/**
 * Joining without the owner, in one channel (SPEC.md, 6.5): the invites that members may use, as signed by the owner,
 * and the agents added by them. Every member counts the uses from the log alone: a commit counts as a use if it adds an
 * agent that its sender claimed in the same epoch. A relay that miscounts changes nothing here, and every agent reports
 * an add beyond the count, so that the owner removes the agent. The states of a use:
 *
 * - `added`: the commit is adopted (`change`), and the joiner has not said hello.
 * - `heard`: it said hello, and this agent has to answer (`hello`): the owner answers all, other members those they
 *   added.
 * - `here`: its hello is answered (`hellosAnswered`), or is for others to answer, or the agent has been added again
 *   since.
 * - `removing`: as the owner, this agent is about to remove it for its silence (`markRemoving`). A hello that arrives
 *   in time leads to `heard`.
 * - `returned`: it was removed, and the use is returned.
 */
import { SIGNATURE_BYTES, StaticError } from '@static/protocol'
import { concat, same } from '../platform/bytes.ts'
import { ed25519, KeyedMutex } from '../mls/index.ts'
import type { AgentId, Change, ChannelRecord, StoredChannel, Time, UseRecord } from '../ports/index.ts'
import type { AgentContext } from '../agent/context.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { Part, type RosterChange } from '../channel/part.ts'
import { Claims } from './claims.ts'
import {
  decodeCounts,
  decodeList,
  decodeListFrame,
  encodeCounts,
  encodeList,
  encodeListFrame,
  type InviteList,
  listBytes,
  type ListedInvite,
  type UseCount,
} from './invite-list.ts'

/** The context that they need from the agent. */
type ListContext = Pick<AgentContext, 'agentId' | 'now' | 'random' | 'sign' | 'emit' | 'invites'>

/**
 * The maximum uses that a newcomer records before it has a list. Honest members add no more before the list arrives.
 */
const MOST_BEFORE_LIST = 256
/** How many agents that left are remembered, latest first. Earlier requests are soon forgotten as well. */
const MOST_LEFT = 256

/** The stored state. */
interface StoredLists extends Pick<StoredChannel, 'inviteList' | 'uses' | 'claims'> {
  readonly record: Pick<ChannelRecord, 'removalSlot'>
}

/** A list that the relay refused is resent after this time. */
const RETRY_MS = 60_000
/**
 * After the relay calls the channel too full for an add by this agent, it leaves joiners to others for this time.
 */
const FULL_MS = 600_000

/** The list in force. */
interface CurrentList extends InviteList {
  /** The bytes that the owner signed. */
  readonly signed: Uint8Array
  /** In the order of the list. */
  readonly counts: readonly (UseCount | undefined)[]
  readonly due: boolean
}

/** The listed invites of one channel, and their uses. */
export class ListedInvites extends Part {
  readonly #context: ListContext
  readonly #channel: AgentChannel
  readonly claims: Claims
  readonly #uses: Map<string, UseRecord>
  /**
   * The leaf keys with which agents were added since this agent started, both those still in the group and those that
   * left.
   */
  readonly #added = new Map<AgentId, Uint8Array>()
  readonly #left = new Map<AgentId, Uint8Array>()
  readonly #turns = new KeyedMutex()
  #list: CurrentList | undefined
  #removalSlot: number
  #sending: Promise<void> | undefined
  /** Whether to retry sending whatever is due. */
  #isAsked = false
  #retryAt: Time = 0
  #fullUntil: Time = 0
  #changes: Change[] = []

  constructor(context: ListContext, channel: AgentChannel, { record, inviteList, uses, claims }: StoredLists) {
    super()
    this.#context = context
    this.#channel = channel
    this.claims = new Claims(context, channel, claims)
    this.#uses = new Map(uses.map((use) => [keyOf(use), use]))
    this.#removalSlot = record.removalSlot
    const list = inviteList && decodeList(inviteList.list)
    if (inviteList && !list) throw StaticError.of('store_corrupt', 'The list of invites of a channel is malformed.')
    if (!inviteList || !list) return
    const counts = decodeCounts(inviteList.counts)
    this.#list = { ...list, signed: inviteList.list, counts, due: inviteList.due }
  }

  /**
   * Runs a task that adds members, one at a time. Otherwise an agent that is added by its id, between this agent's
   * claim and its commit, would use the invite twice.
   */
  async inTurn<Result>(task: () => Promise<Result>): Promise<Result> {
    return await this.#turns.run('', task)
  }

  /** The invites that members may use, in the order of the owner's list. */
  get invites(): readonly ListedInvite[] {
    return this.#list?.invites ?? []
  }

  invite(id: string): ListedInvite | undefined {
    return this.invites.find((invite) => invite.id === id)
  }

  /**
   * Whether the relay recently called the channel too full for an add by this agent. Only members with a vouch can add
   * then.
   */
  get isFull(): boolean {
    const left = this.#fullUntil - this.#context.now()
    return left > 0 && left <= FULL_MS
  }

  /** The relay called the channel too full. */
  full(): void {
    this.#fullUntil = this.#context.now() + FULL_MS
  }

  /**
   * The commit count at the last commit by which the owner removed a member that had not left, or another agent became the
   * owner; 0 if there was none.
   */
  get removalSlot(): number {
    return this.#removalSlot
  }

  /**
   * Whether the owner has removed a member since it signed the list. That member knows the invites, and the relay may
   * withhold the list that revokes them, so no one is admitted until another list arrives.
   */
  get isStopped(): boolean {
    return this.#list !== undefined && this.#list.slot < this.#removalSlot
  }

  /**
   * How many agents have joined with an invite in the list; undefined if this agent is a newcomer that does not know
   * yet.
   */
  count(id: string): number | undefined {
    const known = this.#list?.counts[this.invites.findIndex((invite) => invite.id === id)]
    if (!known) return undefined
    let { count } = known
    for (const { invite, slot, beyond } of this.#uses.values()) {
      if (invite === id && slot > known.slot && !beyond) count++
    }
    return count
  }

  /** The agents added by such invites. Uses of ended invites are forgotten once the agents are here. */
  get uses(): Iterable<UseRecord> {
    return this.#uses.values()
  }

  /** How a member joined: its last addition by such an invite. */
  useOf(agent: AgentId): UseRecord | undefined {
    const uses = [...this.#uses.values()].filter((use) => use.agent === agent)
    return uses.toSorted((a, b) => b.slot - a.slot)[0]
  }

  /**
   * Whether a request was used before: its joiner was added with it and arrived, or has since been added with another
   * one. Only the relay still has it; the joiner cannot use it again.
   */
  isReplayed(agent: AgentId, leafKey: Uint8Array): boolean {
    const known = [...this.#uses.values()].filter((use) => use.agent === agent && same(use.leafKey, leafKey))
    const last = this.useOf(agent)
    return known.some((use) => use !== last || use.state === 'heard' || use.state === 'here')
  }

  /** An agent has left. */
  left(agent: AgentId): void {
    // If it was added before this agent started, its leaf has that key until it commits.
    const leafKey = this.#added.get(agent) ?? this.#channel.group?.members.get(agent)?.encryptionKey
    if (!leafKey) return
    this.#left.delete(agent)
    this.#left.set(agent, Uint8Array.from(leafKey))
    const [oldest] = this.#left.keys()
    if (this.#left.size > MOST_LEFT && oldest !== undefined) this.#left.delete(oldest)
  }

  /**
   * Whether a joiner was added with a request and has left since, which voids the request. The relay has dropped it,
   * but this agent may have received it earlier, for example through another invite.
   */
  hasLeft(agent: AgentId, leafKey: Uint8Array): boolean {
    const left = this.#left.get(agent)
    return left !== undefined && same(left, leafKey)
  }

  // ---- The list ----

  /** As the owner: replaces the list and sends it to the group. Resolves once it is sent or cannot be sent for now. */
  async publish(invites: readonly ListedInvite[]): Promise<void> {
    this.#issue(invites)
    await this.#send()
  }

  #issue(invites: readonly ListedInvite[], last = this.#list?.number ?? 0): void {
    const { slot } = this.#channel.history.position
    const list = { number: last + 1, slot, invites }
    const signature = this.#context.sign(listBytes(this.#channel.channelId, list))
    const signed = concat(encodeList(list), signature)
    const counts = invites.map(({ id }) => this.#toldCount(id) ?? { slot, count: 0 })
    this.#put({ ...list, signed, counts, due: true })
  }

  override resumed(): void {
    this.sendDue()
  }

  /** Sends whatever is due: the relay now delivers, or a fork is over. */
  sendDue(): void {
    void this.#send()
  }

  /** Called every few seconds in a session: resends, after a delay, what the relay refused. */
  retry(): void {
    if (this.#list?.due && !this.#sending && this.#context.now() >= this.#retryAt) void this.#send()
  }

  /** Another member's frame is in the log. */
  receive(kind: 'invites' | 'claim', from: AgentId, payload: Uint8Array): void {
    if (kind === 'invites') this.#receiveList(from, payload)
    else this.claims.receive(from, payload)
  }

  /**
   * Messages are lost: the relay no longer has them, or says so. A list may be among them, so this agent admits no one
   * until it learns the counts again. The owner, which learns them from no one, counts the agents that may have been
   * claimed.
   */
  missed(): void {
    this.claims.missed()
    if (this.#list && !this.#isOwner) this.#put({ ...this.#list, counts: this.invites.map(() => undefined) })
  }

  /**
   * Accepts the list from any member that repeats it, if the owner signed it and it is not older than the known one.
   * The owner's counts replace this agent's, which are the same unless a member gave a newcomer wrong ones.
   */
  #receiveList(from: AgentId, payload: Uint8Array): void {
    const { owner, channelId, group, id, history } = this.#channel
    const frame = this.#isOwner ? undefined : decodeListFrame(payload)
    const list = frame && decodeList(frame.signed)
    const before = this.#list
    const key = group?.members.get(owner)?.signatureKey
    // Signed for a slot to come, a list would outlive later ones, removals and its signer's ownership.
    if (!frame || !list || !key || list.slot > history.position.slot) return
    const isKnown = before !== undefined && same(before.signed, frame.signed)
    if (before && !isKnown && !isOlder(before, list)) return
    if (!isKnown && !ed25519.verifier(key)(listBytes(channelId, list), list.signature)) return
    const counts = list.invites.map((invite, n) => {
      // Another commit came before the frame, so a newcomer may not know all uses since then: the list is resent.
      const told = frame.counts[n]?.slot === history.position.slot ? frame.counts[n] : undefined
      const known = this.#toldCount(invite.id)
      return from === owner ? (told ?? known) : (known ?? told)
    })
    if (isKnown && same(encodeCounts(counts), encodeCounts(before.counts))) return
    this.#put({ ...list, signed: frame.signed, counts, due: before?.due === true && isKnown })
    this.#context.invites?.listChanged(id)
  }

  #toldCount(id: string): UseCount | undefined {
    return this.#list?.counts[this.invites.findIndex((invite) => invite.id === id)]
  }

  #put(list: CurrentList): void {
    this.#list = list
    const { signed, counts, due } = list
    const record = { list: signed, counts: encodeCounts(counts), due }
    this.record({ type: 'putInviteList', id: this.#channel.id, list: record })
    this.#forget()
  }

  /** Sends the list to the group, and again if it changes meanwhile. If that fails, it is retried later. */
  async #send(): Promise<void> {
    this.#isAsked = true
    this.#sending ??= this.#sendAll()
    await this.#sending
  }

  async #sendAll(): Promise<void> {
    while (this.#isAsked) {
      this.#isAsked = false
      await this.#sendDue()
    }
    this.#sending = undefined
  }

  async #sendDue(): Promise<void> {
    const { history } = this.#channel
    // Invites by which this agent admits no one are not announced.
    for (let list = this.#list; list?.due && !this.isStopped; list = this.#list) {
      const counts = list.invites.map(({ id }) => this.count(id))
      const { slot } = history.position
      // A group of one announces the list when someone is added.
      const isAlone = this.#channel.group?.members.size === 1
      try {
        if (!isAlone) await this.#channel.sender.send('invites', encodeListFrame(list.signed, slot, counts))
      } catch {
        this.#retryAt = this.#context.now() + RETRY_MS
        return
      }
      // After another commit, the counts may have arrived too late.
      if (this.#list === list && history.position.slot === slot) this.#put({ ...list, due: false })
    }
  }

  // ---- Uses ----

  /** A member's commit is adopted. The changes are written together with it. */
  override change({ by, added, removed, left, formerOwner }: RosterChange): void {
    const own = by === this.#context.agentId
    const { group, history } = this.#channel
    const { slot } = history.position
    const unknown = added.filter((agent) => this.claims.inviteFor(by, agent) === undefined)
    if (!own && this.#isOwner && this.claims.mayBeLost) this.#countLost(unknown.length)
    for (const use of this.#uses.values()) {
      if (own && use.state === 'removing' && removed.includes(use.agent)) {
        this.#putUse({ ...use, state: 'returned' })
        this.#context.invites?.useReturned(use.invite)
      }
      // The earlier join of an agent that was added again is no longer pending.
      else if (added.includes(use.agent) && isWaitedFor(use)) this.#putUse({ ...use, state: 'here' })
    }
    if (removed.length > 0) this.#fullUntil = 0
    for (const agent of removed) this.#added.delete(agent)
    for (const agent of added) {
      const { encryptionKey = new Uint8Array() } = group?.members.get(agent) ?? {}
      const leafKey = Uint8Array.from(encryptionKey)
      this.#added.set(agent, leafKey)
      this.#context.invites?.added(this.#channel.id, agent)
      const invite = this.claims.inviteFor(by, agent)
      if (invite === undefined) continue
      this.#countUse({ agent, slot, invite, leafKey, by, since: this.#context.now(), state: 'added' })
    }
    this.claims.clear(added)
    this.#forget()
    const isRemoval = by === this.#channel.owner && removed.length > left
    if (isRemoval || formerOwner !== undefined) this.#removalSlot = slot
    if (formerOwner !== undefined) this.#begin(own)
    else if (own) this.#repeat(added.length > 0, isRemoval)
  }

  /** An agent has taken the channel over: the former owner's list is replaced by an empty one, which that agent signs. */
  #begin(own: boolean): void {
    if (!this.#list) return
    if (own) {
      this.#issue([], 0)
      void this.#send()
      return
    }
    // Until the new owner's first list arrives, this one stands in for it, unsigned and never sent.
    const list = { number: 0, slot: this.#channel.history.position.slot, invites: [] }
    const signed = concat(encodeList(list), new Uint8Array(SIGNATURE_BYTES))
    this.#put({ ...list, signed, counts: [], due: false })
  }

  /**
   * This agent has committed. After a removal, other members need a list signed after it; newly added agents need any.
   */
  #repeat(hasAdded: boolean, isRemoval: boolean): void {
    const list = this.#list
    if (!list || (list.invites.length === 0 && !list.due)) return
    if (isRemoval) this.#issue(list.invites)
    // The member that added them sends it, so it is sent once.
    else if (hasAdded) this.#put({ ...list, due: true })
    void this.#send()
  }

  /**
   * As the owner: agents were added after messages were lost, by an unknown invite. Counts them for every invite, so
   * that too many are never admitted.
   */
  #countLost(agents: number): void {
    if (agents === 0 || !this.#list) return
    const counts = this.#list.counts.map((known) => known && { ...known, count: known.count + agents })
    this.#put({ ...this.#list, counts })
    for (const invite of this.invites) this.#context.invites?.useCounted(this.#channel.id, invite.id)
  }

  #countUse(use: Omit<UseRecord, 'beyond'>): void {
    const { id, name } = this.#channel
    const { agent, invite, by } = use
    const listed = this.invite(invite)
    // Before a newcomer gets the list, it counts all claimed agents, because the list may be older.
    if (!this.#list && this.#uses.size >= MOST_BEFORE_LIST) return
    // An agent that does not know the count knows at least the uses it has seen.
    const count = this.count(invite) ?? [...this.#uses.values()].filter((other) => other.invite === invite).length
    const beyond = this.#list !== undefined && (!listed || count >= listed.maxUses)
    this.#putUse({ ...use, beyond })
    this.#context.emit({ type: 'admitted', channel: name, member: agent, by, invite, beyond })
    this.#context.invites?.useCounted(id, invite)
  }

  /** A member says hello. Returns whether this agent answers it: now, or later because it was answered before. */
  hello(from: AgentId): 'now' | 'later' | undefined {
    const use = this.useOf(from)
    if (!use || use.beyond) return undefined
    const isNew = use.state === 'added' || use.state === 'removing'
    if (!this.#answers(use)) {
      if (isNew) this.#putUse({ ...use, state: 'here' })
      return undefined
    }
    if (use.state === 'here') return 'later'
    if (isNew) this.#putUse({ ...use, state: 'heard' })
    return 'now'
  }

  /**
   * As the owner: these members are about to be removed for their silence. The commit that removes them returns their
   * uses.
   */
  markRemoving(uses: readonly UseRecord[]): void {
    for (const use of uses) if (use.state === 'added') this.#putUse({ ...use, state: 'removing' })
  }

  /** This agent has answered the hellos of these members, so they are here. */
  hellosAnswered(agents: readonly AgentId[]): void {
    for (const agent of agents) {
      const use = this.useOf(agent)
      if (use?.state === 'heard') this.#putUse({ ...use, state: 'here' })
    }
  }

  /** The members whose hello this agent has not answered. */
  get unanswered(): readonly AgentId[] {
    return [...this.#uses.values()].filter(({ state }) => state === 'heard').map(({ agent }) => agent)
  }

  override end(error: StaticError): void {
    this.claims.end(error)
  }

  /** Returns the changes since the last call. */
  override drain(): readonly Change[] {
    const changes = this.#changes
    this.#changes = []
    return changes
  }

  get #isOwner(): boolean {
    return this.#channel.owner === this.#context.agentId
  }

  /** The owner answers all hellos, other members those of agents they added. */
  #answers({ by }: UseRecord): boolean {
    return this.#isOwner || by === this.#context.agentId
  }

  /** Forgets uses that neither count nor are pending. */
  #forget(): void {
    const { id, group } = this.#channel
    for (const [key, use] of this.#uses) {
      const isIn = group?.members.has(use.agent) === true
      const counts = !use.beyond && (!this.#list || this.invite(use.invite) !== undefined)
      if (counts || (isIn && (use.beyond || isWaitedFor(use)))) continue
      this.#uses.delete(key)
      this.record({ type: 'dropUse', id, agent: use.agent, slot: use.slot })
    }
  }

  #putUse(use: UseRecord): void {
    this.#uses.set(keyOf(use), use)
    this.record({ type: 'putUse', id: this.#channel.id, use })
  }

  /** A change to write at the end of the turn. */
  record(change: Change): void {
    this.#changes.push(change)
    this.#channel.turn.touchPart()
  }
}

/** Whether a list was signed before another. Each owner restarts the numbers, so the slot decides first. */
function isOlder(one: InviteList, other: InviteList): boolean {
  return one.slot === other.slot ? one.number < other.number : one.slot < other.slot
}

/** Whether its hello, or the answer to it, is pending. */
function isWaitedFor({ state }: UseRecord): boolean {
  return state !== 'here' && state !== 'returned'
}

function keyOf({ agent, slot }: UseRecord): string {
  return `${agent} ${slot}`
}
