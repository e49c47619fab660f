/**
 * The result of `receive`. Everything that a member wrote is a JSON string in a separate field: the text of a message,
 * and the identity in the list of senders, which is outside every text. Its size is bounded, because models pay for
 * each byte.
 */
import { shownIdentity } from '@static/protocol'
import type { Message } from '../agent/actions.ts'
import { plainType } from '../agent/file-names.ts'
import { runBy } from '../agent/members.ts'
import { plainJson } from '../terminal/output.ts'
import type { ArrivedMessage } from './lane.ts'
import type { Notice } from './notices.ts'
import type { ReceivedFile } from './received-files.ts'
import { errorText } from './tool-error.ts'

/** The size of an answer as JSON text. */
export const MOST_ANSWER_BYTES: number = 24 * 1024
/** A text that takes more than this as JSON becomes a file. Leaves room for the longest sender and channel name. */
const MOST_TEXT_BYTES = 20 * 1024
/** Maximum number of files in an answer: each is a write to disk, of up to 256 KiB. */
const MOST_FILES = 16
/** `{"senders":[],"channels":[],"more":true}`, and a margin. */
const FRAME_BYTES = 64

/** The sender of messages in this answer. */
export interface Sender {
  /** Its number in this answer. */
  readonly sender: number
  /** The name it chose itself. */
  readonly identity: string
  readonly fingerprint: string
  readonly agent_id: string
  /** Who runs it, if this agent has checked that. An unchecked claim is never a name. */
  readonly run_by?: string
}

/** A message in an answer: its text, the file that its payload was written to, or why it was not written. */
export interface MessageEntry {
  readonly index: number
  readonly id: string
  readonly time: string
  readonly redelivered: boolean
  readonly sender: number
  /** The name of a request, for `answer`, and when its time ends. */
  readonly request?: string
  readonly until?: string
  readonly text?: string
  readonly file?: string
  readonly bytes?: number
  /** A file that it sends, as its sender describes it. */
  readonly attachment?: { readonly id: string; readonly name: string; readonly type?: string; readonly bytes: number }
  readonly error?: string
}

/** The result of `receive`. */
export interface Received {
  readonly senders: readonly Sender[]
  readonly channels: readonly { readonly channel: string; readonly entries: readonly (MessageEntry | Notice)[] }[]
  /** Whether more has arrived than fits. */
  readonly more: boolean
}

/** The file for a payload. */
export type FileFor = (message: Message, payload: Uint8Array, isText: boolean) => ReceivedFile

/** A message; with the error that a member answered with, in place of its payload. */
export interface ShownMessage extends ArrivedMessage {
  readonly failure?: string
}

/** What an answer can contain. */
export type Shown =
  | { readonly channel: string; readonly message: ShownMessage }
  | { readonly channel: string; readonly notice: Notice }

/** An entry with its file. */
interface Draft {
  readonly entry: MessageEntry | Notice
  readonly file?: ReceivedFile
}

/** Collects the entries of an answer. */
export class Answer {
  readonly #fileFor: FileFor
  readonly #senders = new Map<string, Sender>()
  readonly #channels = new Map<string, (MessageEntry | Notice)[]>()
  #bytes = FRAME_BYTES
  #files = 0
  #isFull = false

  constructor(fileFor: FileFor) {
    this.#fileFor = fileFor
  }

  /** Adds a message or notice; false if it does not fit. The first one always fits. */
  add(item: Shown): boolean {
    const sender = 'message' in item ? this.#senderOf(item.message) : undefined
    const draft: Draft =
      'message' in item
        ? draftOf(item.message, sender?.sender ?? 0, this.#fileFor)
        : { entry: printableNotice(item.notice) }
    const isKnown = sender === undefined || this.#senders.has(keyOf(sender))
    const entries = this.#channels.get(item.channel) ?? []
    const bytes =
      sizeOf(draft.entry) +
      (isKnown ? 0 : sizeOf(sender)) +
      (entries.length > 0 ? 0 : sizeOf({ channel: item.channel, entries: [] }))
    const isTooLong = this.#channels.size > 0 && this.#bytes + bytes > MOST_ANSWER_BYTES
    if (isTooLong || (draft.file && this.#files >= MOST_FILES)) {
      this.#isFull = true
      return false
    }
    this.#bytes += bytes
    if (draft.file) this.#files++
    if (sender) this.#senders.set(keyOf(sender), sender)
    entries.push(written(draft))
    this.#channels.set(item.channel, entries)
    return true
  }

  get result(): Received {
    const channels = [...this.#channels].map(([channel, entries]) => ({ channel, entries }))
    return { senders: [...this.#senders.values()], channels, more: this.#isFull }
  }

  #senderOf({ sender: { agent_id: id, fingerprint, identity, proof } }: Message): Sender {
    const names = { identity: shownIdentity(identity), fingerprint, agent_id: id }
    const sender = { sender: this.#senders.size + 1, ...names, ...runBy(proof) }
    return this.#senders.get(keyOf(sender)) ?? sender
  }
}

/** An agent may have another identity in each channel, and show its proof in some only. */
function keyOf({ agent_id: id, identity, run_by: proven = '' }: Sender): string {
  return `${id} ${identity} ${proven}`
}

/** The size of a value in a list. */
function sizeOf(value: unknown): number {
  return Buffer.byteLength(plainJson(value)) + 1
}

function draftOf(message: ShownMessage, sender: number, fileFor: FileFor): Draft {
  const { index, message_id: id, redelivered, request, until, failure } = message
  // Precise to the second, because models pay for each byte.
  const time = wholeSeconds(message.time)
  const asked = request !== undefined && until !== undefined && { request, until: wholeSeconds(until) }
  const entry = { index, id, time, redelivered, sender, ...asked, ...attachmentOf(message) }
  if (failure !== undefined) return { entry: { ...entry, error: errorText(failure) } }
  const payload = Buffer.from(message.payload, 'base64')
  const text = textIn(payload)
  if (text !== undefined && sizeOf(text) <= MOST_TEXT_BYTES) return { entry: { ...entry, text } }
  const file = fileFor(message, payload, text !== undefined)
  return { entry: { ...entry, file: file.path, bytes: payload.length }, file }
}

function attachmentOf({ file }: ShownMessage): Pick<MessageEntry, 'attachment'> {
  if (!file) return {}
  const type = plainType(file.type)
  return { attachment: { id: file.id, name: file.name, ...(type !== undefined && { type }), bytes: file.size } }
}

function wholeSeconds(time: string): string {
  return time.replace(/\.\d+Z$/, 'Z')
}

/**
 * Writes the file. If that fails, the entry says so without getting longer, so that it does not hold back later
 * messages.
 */
function written({ entry, file }: Draft): MessageEntry | Notice {
  try {
    file?.write()
    return entry
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'failed'
    const { file: _, ...rest } = entry as MessageEntry
    return { ...rest, error: `cannot be written: ${code}` }
  }
}

/** Errors and identities may contain other people's text. */
function printableNotice(notice: Notice): Notice {
  if ('identity' in notice) return { ...notice, identity: shownIdentity(notice.identity) }
  return notice.notice === 'failed' ? { ...notice, message: errorText(notice.message) } : notice
}

function textIn(payload: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(payload)
  } catch {
    return undefined
  }
}
