/**
 * Messages that a handler failed on too often (handling.ts). They are put aside so that they do not block later ones,
 * and stay on disk until the application retries or drops them. Their number and bytes are limited. At the limit, no
 * more are put aside, so that none is lost.
 */
import { StaticError, toHex } from '@static/protocol'
import type { AgentId, Change, MessageTotals, PoisonRecord, StoredChannel } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import type { AgentChannel } from '../channel.ts'
import { Part } from '../part.ts'
import { type InboxEntry, placeOf } from './inbox.ts'
import type { Content } from './content.ts'
import { asStored, bytesOf, contentOf } from './stored-message.ts'

/** The context it needs from the agent. */
type PoisonContext = Pick<AgentContext, 'engine' | 'journal' | 'now'>

/** A message that was put aside, with its payload. */
export interface PutAside extends Content {
  readonly record: PoisonRecord
}

const MOST_MESSAGES = 1000
/** Bytes of ciphertext. */
const MOST_BYTES = 64 * 1024 * 1024
/** The share of both that one sender may use. */
const SHARE = 1 / 4
/** Characters of the reason why a message failed. */
export const MOST_REASON_CHARACTERS = 1000

/** The messages put aside in one channel. */
export class Poison extends Part {
  readonly #context: PoisonContext
  readonly #channel: AgentChannel
  #messages: number
  #bytes: number
  /** By sender. Read from disk on first use. */
  #shares: Map<AgentId, MessageTotals> | undefined
  #changes: Change[] = []

  constructor(context: PoisonContext, channel: AgentChannel, { poison }: Pick<StoredChannel, 'poison'>) {
    super()
    this.#context = context
    this.#channel = channel
    this.#messages = poison.messages
    this.#bytes = poison.bytes
  }

  get isEmpty(): boolean {
    return this.#messages === 0
  }

  /** Moves a message here from the inbox. Returns false if there is no room for it, or no more for its sender. */
  put(entry: InboxEntry, reason: string): boolean {
    if (entry.settled) return true
    const length = bytesOf(entry.record, entry.payload)
    if (this.#messages >= MOST_MESSAGES || this.#bytes + length > MOST_BYTES) return false
    const { sender } = entry.record
    const { messages, bytes } = this.#shareOf(sender)
    if (messages >= MOST_MESSAGES * SHARE || bytes + length > MOST_BYTES * SHARE) return false
    this.#channel.inbox.remove(entry)
    this.#channel.receipts.putAside(entry.record.index)
    const putAsideAt = this.#context.now()
    const record = { ...asStored(entry), reason: reason.slice(0, MOST_REASON_CHARACTERS), putAsideAt }
    this.#count(sender, 1, length)
    this.#change({ type: 'putPoison', id: this.#channel.id, record })
    return true
  }

  /** The messages put aside, in order. */
  list(): readonly PutAside[] {
    if (this.isEmpty) return []
    return this.#context.journal.poison(this.#channel.id).map((record) => {
      const content = contentOf(this.#context.engine, record)
      if (!content)
        throw StaticError.of('store_corrupt', `Message ${record.index} was put aside and cannot be decoded.`)
      return { record, ...content }
    })
  }

  /**
   * Moves a message back to the inbox. Its name is its id or, if that is not unique, `id@index`.
   *
   * @throws {StaticError} `not_found`, `invalid_request`
   */
  async retry(name: string): Promise<void> {
    const { record: stored, ...content } = this.#remove(name)
    const { reason: _reason, putAsideAt: _putAsideAt, ...record } = stored
    this.#channel.inbox.readmit({ record: { ...record, attempts: 0 }, ...content, redelivered: true })
    await this.#context.journal.written()
  }

  /**
   * Deletes a message.
   *
   * @throws {StaticError} `not_found`, `invalid_request`
   */
  async drop(name: string): Promise<void> {
    this.#remove(name)
    await this.#context.journal.written()
  }

  /** Returns the changes since the last call. */
  override drain(): readonly Change[] {
    const changes = this.#changes
    this.#changes = []
    return changes
  }

  #remove(name: string): PutAside {
    const found = this.#find(name)
    this.#count(found.record.sender, -1, -found.record.ciphertext.length)
    this.#change({ type: 'dropPoison', id: this.#channel.id, place: placeOf(found.record) })
    return found
  }

  #find(name: string): PutAside {
    const [id, index] = name.split('@')
    const isNamed = ({ record }: PutAside): boolean =>
      toHex(record.messageId) === id && (index === undefined || String(record.index) === index)
    const [found, ...others] = this.list().filter(isNamed)
    if (!found) throw StaticError.of('not_found', `No message ${name} was put aside in this channel.`)
    if (others.length === 0) return found
    // Senders choose the ids of their messages.
    const names = [found, ...others].map(({ record }) => `${id}@${record.index}`)
    throw StaticError.of(
      'invalid_request',
      `${names.length} messages have the id ${id}. Name one: ${names.join(', ')}.`,
    )
  }

  #shareOf(sender: AgentId): MessageTotals {
    if (!this.#shares) {
      const stored = this.isEmpty ? [] : this.#context.journal.poison(this.#channel.id)
      this.#shares = new Map()
      for (const { sender: by, ciphertext } of stored) this.#share(by, 1, ciphertext.length)
    }
    return this.#shares.get(sender) ?? { messages: 0, bytes: 0 }
  }

  #share(sender: AgentId, messages: number, bytes: number): void {
    const before = this.#shares?.get(sender) ?? { messages: 0, bytes: 0 }
    const share = { messages: before.messages + messages, bytes: before.bytes + bytes }
    if (share.messages > 0) this.#shares?.set(sender, share)
    else this.#shares?.delete(sender)
  }

  #count(sender: AgentId, messages: number, bytes: number): void {
    this.#messages += messages
    this.#bytes += bytes
    this.#share(sender, messages, bytes)
  }

  #change(change: Change): void {
    this.#changes.push(change)
    this.#channel.turn.touchPart()
  }
}
