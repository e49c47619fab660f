/** Received messages, as the application gets them. */
import { StaticError, toHex } from '@static/protocol'
import { type AnswerError, decodeRequest } from '../channel/asking/ask-frame.ts'
import type { AnswerEntry } from '../channel/asking/open-ask.ts'
import type { ServedRequest } from '../channel/asking/serving.ts'
import type { Inbox } from '../channel/receiving/inbox.ts'
import type { InboxEntry } from '../channel/receiving/inbox.ts'
import type { MemberProof } from '../channel/proving/member-proof.ts'
import { type ChannelMember, memberOf, timeOf } from './received/member.ts'
import type { ReceivedFile } from './received/received-file.ts'
import type { AgentId, InboxRecord } from '../ports/index.ts'

/** The common part of messages, requests and answers. */
export abstract class ReceivedMessage {
  /** Verified by the signature on the message. */
  readonly sender: ChannelMember
  /** 32 hexadecimal digits, the same as `send` returned to the sender. */
  readonly messageId: string
  /** Position in the channel's log. Payloads sent as one message share it. */
  readonly index: number
  /** The epoch of the group in which it was sent. Each change of members or keys begins a new one. */
  readonly epoch: number
  /** When the relay accepted the message, by the relay's clock. */
  readonly time: Date

  /** @internal */
  constructor({ sender, identity, messageId, index, epoch, receivedAt }: InboxRecord, proof: MemberProof | undefined) {
    this.sender = memberOf(sender, identity, proof)
    this.messageId = toHex(messageId)
    this.index = index
    this.epoch = epoch
    this.time = timeOf(receivedAt)
  }

  /** The bytes that were sent: a `Uint8Array`, not a `Buffer`, whose `toString` would give text. For text, use `text()`. */
  abstract readonly payload: Uint8Array

  /**
   * The payload as text.
   *
   * @throws {StaticError} `invalid_request` if it is not UTF-8
   */
  text(): string {
    const { payload } = this
    try {
      return textOf(payload)
    } catch (cause) {
      throw StaticError.of('invalid_request', `The payload of message ${this.index} is not UTF-8 text.`, { cause })
    }
  }

  /**
   * The value of a JSON payload, as sent by `Channel.sendJson`.
   *
   * @throws {StaticError} `invalid_json`
   */
  json(): unknown {
    const { payload } = this
    try {
      return JSON.parse(textOf(payload))
    } catch (cause) {
      throw StaticError.of('invalid_json', `The payload of message ${this.index} is not JSON.`, { cause })
    }
  }
}

/** A received payload with its metadata. */
export class Envelope extends ReceivedMessage {
  readonly payload: Uint8Array
  /** The file that the message sends; undefined for other messages. The payload is the text beside it. */
  readonly file: ReceivedFile | undefined
  /**
   * True if the message may have been delivered before without being settled; false means that it was not. After a
   * crash, it is also true for up to 256 messages that the program has never seen, because deliveries are not written
   * to disk one by one. After an orderly close it is exact.
   */
  readonly redelivered: boolean
  readonly #entry: InboxEntry
  readonly #inbox: Inbox

  /** @internal Get envelopes from a channel. */
  constructor(
    entry: InboxEntry,
    inbox: Inbox,
    { proof, file }: { readonly proof: MemberProof | undefined; readonly file: ReceivedFile | undefined },
  ) {
    super(entry.record, proof)
    this.payload = entry.payload
    this.file = file
    this.redelivered = entry.redelivered
    this.#entry = entry
    this.#inbox = inbox
  }

  /** Settles the message, so that it is not delivered again. Asking for the next message also settles it. */
  settle(): void {
    this.#inbox.settle(this.#entry)
  }

  /** @internal The program has received a message that was read ahead. */
  markGiven(): void {
    this.#inbox.given(this.#entry)
  }
}

/** A request from another member, for the handler of `Channel.serve`. */
export class ChannelRequest extends ReceivedMessage {
  readonly payload: Uint8Array
  /** Whether this agent was asked by id. Otherwise all members were asked. */
  readonly isToMe: boolean
  /** When the asker stops waiting. */
  readonly deadline: Date
  /** True if the request may have been served before, fully or in part; after a crash, see `Envelope.redelivered`. */
  readonly redelivered: boolean
  readonly #served: ServedRequest

  /** @internal Handlers receive requests. */
  constructor(entry: InboxEntry, served: ServedRequest, proof: MemberProof | undefined) {
    super(entry.record, proof)
    const body = decodeRequest(entry.payload)
    this.payload = body?.payload ?? new Uint8Array()
    this.isToMe = body?.to !== undefined
    this.deadline = timeOf(entry.record.receivedAt + (body?.lifetimeMs ?? 0))
    this.redelivered = entry.redelivered
    this.#served = served
  }

  /** Aborted when the asker cancels the request, leaves, or stops waiting. */
  get signal(): AbortSignal {
    return this.#served.signal
  }

  /** @internal Resolves when it is over, to whether the relay has accepted all of its answer. */
  get over(): Promise<boolean> {
    return this.#served.over
  }
}

/** An answer to a request (`Channel.ask`). */
export class Answer extends ReceivedMessage {
  /** Set if the member did not answer: `ask_failed`, with the member's own code in `details.answer`. */
  readonly error: StaticError | undefined
  readonly #payload: Uint8Array

  /** @internal Get answers from `Channel.ask`. */
  constructor({ record, content }: AnswerEntry, proof: MemberProof | undefined) {
    super(record, proof)
    const isError = 'error' in content
    this.#payload = isError ? new Uint8Array() : content.payload
    this.error = isError ? askFailed(record.sender, content.error) : undefined
  }

  /**
   * The bytes of the answer. For text, use `text()`.
   *
   * @throws {StaticError} `error`, if set
   */
  get payload(): Uint8Array {
    if (this.error) throw this.error
    return this.#payload
  }
}

function askFailed(sender: AgentId, answer: AnswerError): StaticError {
  const text = `Agent ${sender.slice(0, 8)}… answered with the error ${answer.code}: ${answer.message}`
  return StaticError.of('ask_failed', text, { answer })
}

/** Throws unless the payload is UTF-8. */
function textOf(payload: Uint8Array): string {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(payload)
}
