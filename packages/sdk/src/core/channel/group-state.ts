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
import type { AgentId, Change, ChannelId, EpochRecord } from '../../ports.ts'

/** A message of another member that was opened. */
export interface OpenedMessage {
  readonly sender: Member
  readonly plaintext: Uint8Array
  readonly messageKey: Uint8Array
}

/** A group in use. */
export class GroupState {
  readonly #engine: MlsEngine
  readonly #rows: Map<number, RatchetRow>
  readonly #members: ReadonlyMap<AgentId, Member>
  readonly #leaves: ReadonlyMap<number, Member>
  #group: Group
  readonly facts: GroupFacts
  /** Rows that changed since they were written. */
  readonly #dirty = new Set<number>()
  /** Whether a message of another was opened in this epoch: then it is the others' epoch, too. */
  heardOthers = false

  constructor(engine: MlsEngine, { group, rows }: Epoch) {
    this.#engine = engine
    this.#group = group
    this.#rows = new Map(rows.map((row) => [row.leaf, row]))
    this.facts = engine.facts(group)
    const members = this.facts.members.filter(({ founder }) => !founder)
    this.#members = new Map(members.map((member) => [toHex(member.agentId), member]))
    this.#leaves = new Map(members.map((member) => [member.leaf, member]))
  }

  /**
   * A group from the database.
   *
   * @throws {StaticError} `store_corrupt`
   */
  static load(engine: MlsEngine, { group, rows }: EpochRecord, key: SignatureKeyPair): GroupState {
    return new GroupState(engine, { group: engine.decodeGroup(group, key), rows: [...rows.values()].map(decodeRow) })
  }

  get group(): Group {
    return this.#group
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
   * Opens a message of another member.
   *
   * @throws {StaticError} `epoch_mismatch` for another epoch, otherwise `decryption_failure`
   */
  open(ciphertext: Uint8Array): OpenedMessage {
    const { leaf, plaintext, messageKey, row } = this.#engine.open(this.#group, this.#rows, ciphertext)
    const sender = this.#leaves.get(leaf)
    if (sender === undefined) throw StaticError.of('decryption_failure', 'The founder leaf sends nothing.')
    this.#replace(row)
    this.heardOthers = true
    return { sender, plaintext, messageKey }
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
