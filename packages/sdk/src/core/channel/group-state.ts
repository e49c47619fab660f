/**
 * The MLS group of one channel in its current epoch, with the ratchets of its messages: what is in use, and what of it
 * is not on disk yet. Values that were replaced are wiped here, once their successors are in place.
 */
import { StaticError, toHex } from '@static/protocol'
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
} from '../../mls/index.ts'
import type { AgentId, Change, ChannelId, EpochPlace, EpochRecord } from '../../ports.ts'
import { same } from '../bytes.ts'
import { SenderTrust } from './sender-trust.ts'

/** A message of another member that was opened. */
export interface OpenedMessage {
  readonly sender: Member
  readonly plaintext: Uint8Array
  readonly messageKey: Uint8Array
}

/** What the relay says of a message. */
export interface Envelope {
  readonly sender: AgentId
  readonly index: number
  readonly counter: number
  /** Of the sender's last message that was opened here, if there is one. */
  readonly lastCounter: number | undefined
}

/** What of the owner does not open before it is clear that this agent is in another epoch. */
const MOST_OWNER_FAILURES = 2

/** A group in use. */
export class GroupState {
  readonly #engine: MlsEngine
  readonly #rows: Map<number, RatchetRow>
  readonly #members: ReadonlyMap<AgentId, Member>
  #group: Group
  readonly facts: GroupFacts
  /** Rows that changed since they were written. */
  readonly #dirty = new Set<number>()
  #place: EpochPlace
  readonly #trust = new SenderTrust()
  /** Whether a message of the owner was opened in this epoch: then it is not one that another has made up. */
  #hasHeardOwner = false
  /** Whether the owner has spoken in this epoch, and nothing that only some can follow came after its word. */
  #isConfirmed = false
  /** How often the owner could not be read since then. */
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
   * A group from the database.
   *
   * @throws {StaticError} `store_corrupt`
   */
  static load(engine: MlsEngine, { group, rows }: EpochRecord, key: SignatureKeyPair, place: EpochPlace): GroupState {
    const epoch = { group: engine.decodeGroup(group, key), rows: [...rows.values()].map(decodeRow) }
    return new GroupState(engine, epoch, place)
  }

  /** How the epoch began here, and what became of commits in it. */
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

  /** Whether every honest member that has heard the owner's last word is in this epoch. */
  get isConfirmed(): boolean {
    return this.#isConfirmed
  }

  /** The encryption key of the own leaf. A copy: it outlives the group. */
  get leafKey(): Uint8Array {
    return Uint8Array.from(this.facts.own.encryptionKey)
  }

  /** Without the founder leaf. */
  get members(): ReadonlyMap<AgentId, Member> {
    return this.#members
  }

  seal(plaintext: Uint8Array): Sealed {
    const sealed = this.#engine.encrypt(this.#group, this.#rows, plaintext)
    this.#replace(sealed.row)
    return sealed
  }

  /**
   * Opens a message of the member that its envelope names.
   *
   * @throws {StaticError} `epoch_mismatch` for another epoch, otherwise `decryption_failure`
   */
  open(ciphertext: Uint8Array, { sender, index, counter, lastCounter }: Envelope): OpenedMessage {
    const member = this.#members.get(sender)
    if (member === undefined)
      throw StaticError.of('decryption_failure', `The sender, agent ${sender}, is not a member.`)
    const spoken = lastCounter === undefined ? index - this.#place.index : counter - lastCounter
    const expected = { leaf: member.leaf, steps: this.#trust.steps(sender, spoken) }
    try {
      const { plaintext, messageKey, row } = this.#engine.open(this.#group, this.#rows, ciphertext, expected)
      const before = this.#rows.get(row.leaf)?.generation ?? 0
      this.#trust.opened(sender, spoken, row.generation - 1 - before)
      this.#replace(row)
      if (same(member.agentId, this.facts.context.owner)) {
        this.#hasHeardOwner = true
        this.confirm()
      }
      // Whoever speaks in this epoch has not followed the commit, either.
      if (sender !== this.#place.doubted) this.settle()
      return { sender: member, plaintext, messageKey }
    } catch (error) {
      if (error instanceof StaticError && error.code === 'decryption_failure') this.#trust.failed(sender)
      throw error
    }
  }

  /** Whether the last failure of this sender was the one that costs it its trust. */
  hasLostTrust(sender: AgentId): boolean {
    return this.#trust.isLostNow(sender)
  }

  /**
   * How many of the own generations of this epoch carry no counter that the others hear of, if the last message is the
   * one with this counter: those of messages that the relay refused.
   */
  burnt(counter: number): number {
    const generation = this.#rows.get(this.facts.own.leaf)?.generation ?? 0
    return generation - Math.max(0, counter - this.#place.counter)
  }

  /** The messages after this counter are encrypted in this epoch, also those that were encrypted before it. */
  rewind(counter: number): void {
    if (counter < this.#place.counter) this.#place = { ...this.#place, counter }
  }

  /** A commit of this agent was left out. */
  leaveOut(by: AgentId): void {
    const { leftOut } = this.#place
    if (leftOut.length < 2 && !leftOut.includes(by)) this.#place = { ...this.#place, leftOut: [...leftOut, by] }
  }

  /** A commit of this agent is valid as far as all members can see, and this one cannot follow it. */
  doubt(by: AgentId): void {
    this.leaveOut(by)
    this.#isConfirmed = false
    this.#place = { ...this.#place, doubted: by }
  }

  /** Another has shown that it is in this epoch. The owner has to speak itself: the others follow its word. */
  settle(): void {
    if (!this.isOwner) this.#clearDoubt()
  }

  /** The owner has spoken in this epoch. */
  confirm(): void {
    this.#isConfirmed = true
    this.#ownerFailures = 0
    this.#clearDoubt()
  }

  /**
   * What the owner said, in its place and with the number of this epoch, does not open. Once may be a bit that the relay
   * has flipped; whether it shows that the owner is in another epoch of that number.
   */
  isOwnerElsewhere(): boolean {
    return !this.#isConfirmed && ++this.#ownerFailures >= MOST_OWNER_FAILURES
  }

  /**
   * Whether a message or commit of a higher epoch shows that the others have gone on without this agent. Anybody can write
   * a number on a message, and one guest can bring in many agents: so where this agent knows that its epoch is the group's,
   * only the owner's number counts, after a commit was left out. Where it does not, the owner's counts always, and another
   * member's after a commit of somebody else was left out.
   */
  isLeftBehind(sender: AgentId): boolean {
    const { isProven, leftOut } = this.#place
    const isOwner = sender === toHex(this.facts.context.owner)
    if (isProven || this.#hasHeardOwner) return isOwner && leftOut.length > 0
    return isOwner || (this.#members.has(sender) && leftOut.some((by) => by !== sender))
  }

  /** Puts a group of the same epoch in place of this one: the key of an own commit is used up in it. */
  use(group: Group): void {
    this.#engine.wipe(this.#group, group)
    this.#group = group
  }

  /** The whole of it, for the database. */
  record(): EpochRecord {
    this.#dirty.clear()
    return epochRecord(this.#engine, { group: this.#group, rows: [...this.#rows.values()] })
  }

  /** The rows that changed since the last time. */
  drain(id: ChannelId): Change[] {
    const changes: Change[] = []
    for (const leaf of this.#dirty) {
      const row = this.#rows.get(leaf)
      if (row !== undefined) changes.push({ type: 'putRow', id, leaf, row: encodeRow(row) })
    }
    this.#dirty.clear()
    return changes
  }

  /** The epoch is over: nothing of it may be found in memory, but what the next one shares with it. */
  wipe(staying?: Group): void {
    this.#engine.wipe(this.#group, staying)
    for (const { secret } of this.#rows.values()) secret.fill(0)
  }

  #clearDoubt(): void {
    if (this.#place.doubted !== undefined) this.#place = { ...this.#place, doubted: undefined }
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

/** Overwrites an epoch that was never used. */
export function wipeEpoch(engine: MlsEngine, { group, rows }: Epoch, staying?: Group): void {
  engine.wipe(group, staying)
  for (const { secret } of rows) secret.fill(0)
}
