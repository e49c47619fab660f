/**
 * The answer of `receive`. Everything that a member writes is a JSON string in a field of its own: the text of a message,
 * and the identity in the list of senders, which stands outside every text. Its size is bounded, because models pay for
 * each byte.
 */
import type { Message } from '../agent/actions.ts'
import { plainJson, printable } from '../terminal/output.ts'
import type { Item } from './lane.ts'
import type { Notice } from './notices.ts'
import { errorText } from './tool-error.ts'

/** The size of an answer as JSON text. */
export const MOST_ANSWER_BYTES: number = 24 * 1024
/** A text that takes more as JSON becomes a file. Leaves room for the longest sender and channel name. */
const MOST_TEXT_BYTES = 20 * 1024
/** `{"senders":[],"channels":[],"more":true}`, and a margin. */
const FRAME_BYTES = 64

/** Who sent messages of this answer. */
export interface Sender {
  /** Its number in this answer. */
  readonly sender: number
  /** A name that it chose itself. */
  readonly identity: string
  readonly fingerprint: string
  readonly agent_id: string
}

/** A message in an answer: its text, or the file that its payload was written to. */
export interface MessageEntry {
  readonly index: number
  readonly id: string
  readonly time: string
  readonly redelivered: boolean
  readonly sender: number
  readonly text?: string
  readonly file?: string
  readonly bytes?: number
}

/** What `receive` returns. */
export interface Received {
  readonly senders: readonly Sender[]
  readonly channels: readonly { readonly channel: string; readonly entries: readonly (MessageEntry | Notice)[] }[]
  /** Whether more has arrived than fits. */
  readonly more: boolean
}

/** Writes a payload to a file and returns its path. */
export type SaveFile = (message: Message, payload: Uint8Array, isText: boolean) => string

/** Collects the entries of an answer. */
export class Answer {
  readonly #save: SaveFile
  readonly #senders = new Map<string, Sender>()
  readonly #channels = new Map<string, (MessageEntry | Notice)[]>()
  #bytes = FRAME_BYTES
  #isFull = false

  constructor(save: SaveFile) {
    this.#save = save
  }

  /** Adds a message or notice; false if it does not fit. The first one always fits. */
  add(item: Item): boolean {
    const sender = 'message' in item ? this.#senderOf(item.message) : undefined
    const entry =
      'message' in item ? entryOf(item.message, sender?.sender ?? 0, this.#save) : printableNotice(item.notice)
    const isKnown = sender === undefined || this.#senders.has(sender.agent_id)
    const entries = this.#channels.get(item.channel) ?? []
    const bytes =
      sizeOf(entry) +
      (isKnown ? 0 : sizeOf(sender)) +
      (entries.length > 0 ? 0 : sizeOf({ channel: item.channel, entries: [] }))
    if (this.#channels.size > 0 && this.#bytes + bytes > MOST_ANSWER_BYTES) {
      this.#isFull = true
      return false
    }
    this.#bytes += bytes
    if (sender) this.#senders.set(sender.agent_id, sender)
    entries.push(entry)
    this.#channels.set(item.channel, entries)
    return true
  }

  get result(): Received {
    const channels = [...this.#channels].map(([channel, entries]) => ({ channel, entries }))
    return { senders: [...this.#senders.values()], channels, more: this.#isFull }
  }

  #senderOf({ sender: { agent_id: id, fingerprint, identity } }: Message): Sender {
    const known = this.#senders.get(id)
    return known ?? { sender: this.#senders.size + 1, identity: printable(identity), fingerprint, agent_id: id }
  }
}

/** Its size in a list. */
function sizeOf(value: unknown): number {
  return Buffer.byteLength(plainJson(value)) + 1
}

function entryOf(message: Message, sender: number, save: SaveFile): MessageEntry {
  const { index, message_id: id, redelivered } = message
  // To the second: models pay for each byte.
  const time = message.time.replace(/\.\d+Z$/, 'Z')
  const entry = { index, id, time, redelivered, sender }
  const payload = Buffer.from(message.payload, 'base64')
  const text = textIn(payload)
  if (text !== undefined && sizeOf(text) <= MOST_TEXT_BYTES) return { ...entry, text }
  return { ...entry, file: save(message, payload, text !== undefined), bytes: payload.length }
}

/** Errors and identities may contain what others wrote. */
function printableNotice(notice: Notice): Notice {
  if (notice.notice === 'key_changed') return { ...notice, identity: printable(notice.identity) }
  return notice.notice === 'failed' ? { ...notice, message: errorText(notice.message) } : notice
}

function textIn(payload: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(payload)
  } catch {
    return undefined
  }
}
