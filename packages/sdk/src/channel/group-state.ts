/**
 * The MLS group of one channel in its current epoch, with its message ratchets, and which of them are not on disk yet.
 * Wipes values once their successors are in place.
 */
import { StaticError, toHex } from '@static/protocol'
import { same } from '../platform/bytes.ts'
import {
  decodeRow,
  encodeRow,
  type Epoch,
  type Group,
  type GroupFacts,
  type Member,
  type MlsEngine,
  type RatchetRow,
  type Sealed,
  type SignatureKeyPair,
} from '../mls/index.ts'
import type { AgentId, Change, ChannelId, EpochPlace, EpochRecord } from '../ports/index.ts'
import { SenderTrust } from './log/sender-trust.ts'

/** A decrypted message from another member. */
export interface OpenedMessage {
  readonly sender: Member
  readonly plaintext: Uint8Array
  readonly messageKey: Uint8Array
}

/** The relay's metadata of a message. */
export interface RelayedFields {
  readonly sender: AgentId
  readonly index: number
  readonly counter: number
  /** Counter of the last message from this sender that was decrypted here, if any. */
  readonly lastCounter: number | undefined
}

/** The place of an epoch about which nothing is known. */
export const NO_EPOCH: EpochPlace = {
  index: 0,
  counter: 0,
  isProven: false,
  hasHeardOwner: false,
  leftOut: [],
  leftOutBefore: [],
  doubted: [],
}

/** After this many undecryptable entries by the owner, the owner must be in another epoch. */
const MOST_OWNER_FAILURES = 2

export class GroupState {
  readonly #engine: MlsEngine
  readonly #rows: Map<number, RatchetRow>
  readonly #members: ReadonlyMap<AgentId, Member>
  #group: Group
  readonly facts: GroupFacts
  /** Rows that have changed since they were written. */
  readonly #dirty = new Set<number>()
  #place: EpochPlace
  readonly #trust = new SenderTrust()
  /** Whether the owner has sent in this epoch, with no later commit that only some members can follow. */
  #isConfirmed = false
  /** The number of undecryptable entries by the owner since then. */
  #ownerFailures = 0

  constructor(engine: MlsEngine, { group, rows }: Epoch, place: EpochPlace) {
    this.#engine = engine
    this.#place = place
    this.#group = group
    this.#rows = new Map(rows.map((row) => [row.leaf, row]))
    this.facts = engine.facts(group)
    const members = this.facts.members.filter(({ founder }) => !founder)
    this.#members = new Map(members.map((member) => [toHex(member.agentId), member]))
  }

  /**
   * Loads a group from the database.
   *
   * @throws {StaticError} `store_corrupt`
   */
  static load(engine: MlsEngine, { group, rows }: EpochRecord, key: SignatureKeyPair, place: EpochPlace): GroupState {
    const epoch = { group: engine.decodeGroup(group, key), rows: [...rows.values()].map(decodeRow) }
    return new GroupState(engine, epoch, place)
  }

  /** How the epoch began here, and what happened to commits in it. */
  get place(): EpochPlace {
    return this.#place
  }

  get group(): Group {
    return this.#group
  }

  /** Whether this agent owns the channel. */
  get isOwner(): boolean {
    return same(this.facts.own.agentId, this.facts.context.owner)
  }

  /** Whether every honest member that has processed the owner's last message is in this epoch. */
  get isConfirmed(): boolean {
    return this.#isConfirmed
  }

  /** The encryption key of this agent's leaf. A copy, because it outlives the group. */
  get leafKey(): Uint8Array {
    return Uint8Array.from(this.facts.own.encryptionKey)
  }

  /** The members, without the founder leaf. */
  get members(): ReadonlyMap<AgentId, Member> {
    return this.#members
  }

  seal(plaintext: Uint8Array): Sealed {
    const sealed = this.#engine.encrypt(this.#group, this.#rows, plaintext)
    this.#replace(sealed.row)
    return sealed
  }

  /**
   * Decrypts a message from the member named in its envelope.
   *
   * @throws {StaticError} `epoch_mismatch` for another epoch, otherwise `decryption_failure`
   */
  open(ciphertext: Uint8Array, { sender, index, counter, lastCounter }: RelayedFields): OpenedMessage {
    const member = this.#members.get(sender)
    if (member === undefined)
      throw StaticError.of('decryption_failure', `The sender, agent ${sender}, is not a member.`)
    const sent = lastCounter === undefined ? index - this.#place.index : counter - lastCounter
    const expected = { leaf: member.leaf, steps: this.#trust.steps(sender, sent) }
    try {
      const { plaintext, messageKey, row } = this.#engine.open(this.#group, this.#rows, ciphertext, expected)
      const before = this.#rows.get(row.leaf)?.generation ?? 0
      this.#trust.opened(sender, sent, row.generation - 1 - before)
      this.#replace(row)
      if (same(member.agentId, this.facts.context.owner)) {
        if (!this.#place.hasHeardOwner) this.#place = { ...this.#place, hasHeardOwner: true }
        this.confirm()
      }
      // A member that sends in this epoch has not followed the doubted commit either.
      if (!this.#place.doubted.includes(sender)) this.endDoubt()
      return { sender: member, plaintext, messageKey }
    } catch (error) {
      if (error instanceof StaticError && error.code === 'decryption_failure') this.#trust.failed(sender)
      throw error
    }
  }

  /** Whether this sender's last failure is the one that limits it from now on. */
  hasLostTrust(sender: AgentId): boolean {
    return this.#trust.isLostNow(sender)
  }

  /**
   * The number of this agent's generations in this epoch that never reach the other members, because the relay refused
   * their messages. `counter` is that of its last message.
   */
  burnt(counter: number): number {
    const generation = this.#rows.get(this.facts.own.leaf)?.generation ?? 0
    return generation - Math.max(0, counter - this.#place.counter)
  }

  /**
   * From this counter on, all messages are encrypted in this epoch, including those first encrypted in an earlier one.
   */
  rewind(counter: number): void {
    if (counter < this.#place.counter) this.#place = { ...this.#place, counter }
  }

  /** Records that a commit by this member was skipped. */
  leaveOut(by: AgentId): void {
    const { leftOut } = this.#place
    // Two strangers are enough: only a lying relay can name them.
    if (leftOut.includes(by) || (leftOut.length >= 2 && !this.#members.has(by))) return
    this.#place = { ...this.#place, leftOut: [...leftOut, by] }
  }

  /** The members whose commits were skipped in this epoch, or in earlier ones after which the owner has not sent. */
  get allLeftOut(): readonly AgentId[] {
    const { leftOut, leftOutBefore } = this.#place
    return [...new Set([...leftOutBefore, ...leftOut])].filter((by) => this.#members.has(by))
  }

  /** Records that a commit by this member is valid as far as every member can see, but this agent cannot follow it. */
  doubt(by: AgentId): void {
    this.leaveOut(by)
    this.#isConfirmed = false
    const { doubted } = this.#place
    if (!doubted.includes(by)) this.#place = { ...this.#place, doubted: [...doubted, by] }
  }

  /**
   * Another member has shown that it is in this epoch: its commits are no longer doubted. The owner must still send itself,
   * because the others follow it.
   */
  endDoubt(): void {
    if (!this.isOwner) this.#clearDoubt()
  }

  /** The owner has sent in this epoch. */
  confirm(): void {
    this.#isConfirmed = true
    this.#ownerFailures = 0
    if (this.#place.leftOutBefore.length > 0) this.#place = { ...this.#place, leftOutBefore: [] }
    this.#clearDoubt()
  }

  /**
   * Counts an undecryptable entry by the owner that is in its place and has this epoch's number. Returns whether the
   * owner must be in a different epoch with that number: a single such entry may be a bit flipped by the relay.
   */
  isOwnerElsewhere(): boolean {
    return !this.#isConfirmed && ++this.#ownerFailures >= MOST_OWNER_FAILURES
  }

  /**
   * Whether a message or commit with a higher epoch number shows that the channel has moved on without this agent. Any
   * member can write any number, and a single guest can bring in many agents. So if this agent knows that its epoch is
   * the group's, only the owner's number counts, and only after a commit was skipped. Otherwise the owner's number
   * always counts, and another member's counts after a commit by a third member was skipped.
   */
  isLeftBehind(sender: AgentId): boolean {
    const { isProven, hasHeardOwner, leftOut } = this.#place
    const isOwner = sender === toHex(this.facts.context.owner)
    if (isProven || hasHeardOwner) return isOwner && leftOut.length > 0
    return isOwner || (this.#members.has(sender) && leftOut.some((by) => by !== sender))
  }

  /** Replaces the group with one of the same epoch that has used up the key of this agent's commit. */
  use(group: Group): void {
    this.#engine.wipe(this.#group, group)
    this.#group = group
  }

  /** The complete epoch, for the database. */
  record(): EpochRecord {
    this.#dirty.clear()
    return epochRecord(this.#engine, { group: this.#group, rows: [...this.#rows.values()] })
  }

  /** Returns the rows changed since the last call. */
  drain(id: ChannelId): Change[] {
    const changes: Change[] = []
    for (const leaf of this.#dirty) {
      const row = this.#rows.get(leaf)
      if (row !== undefined) changes.push({ type: 'putRow', id, leaf, row: encodeRow(row) })
    }
    this.#dirty.clear()
    return changes
  }

  /** Erases the epoch from memory, except the parts it shares with the next one. */
  wipe(staying?: Group): void {
    this.#engine.wipe(this.#group, staying)
    for (const { secret } of this.#rows.values()) secret.fill(0)
  }

  #clearDoubt(): void {
    if (this.#place.doubted.length > 0) this.#place = { ...this.#place, doubted: [] }
  }

  #replace(row: RatchetRow): void {
    this.#rows.get(row.leaf)?.secret.fill(0)
    this.#rows.set(row.leaf, row)
    this.#dirty.add(row.leaf)
  }
}

/** An epoch as the database holds it. */
export function epochRecord(engine: MlsEngine, { group, rows }: Epoch): EpochRecord {
  return { group: engine.encodeGroup(group), rows: new Map(rows.map((row) => [row.leaf, encodeRow(row)])) }
}

/** Erases an epoch that was never used. */
export function wipeEpoch(engine: MlsEngine, { group, rows }: Epoch, staying?: Group): void {
  engine.wipe(group, staying)
  for (const { secret } of rows) secret.fill(0)
}
