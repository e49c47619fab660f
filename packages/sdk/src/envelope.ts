/** Received messages, as the application gets them. */
import { StaticError, toHex } from '@static/protocol'
import type { Inbox, Entry } from './core/channel/messages/inbox.ts'
import type { PutAside } from './core/channel/messages/poison.ts'
import { fingerprintOf } from './fingerprint.ts'
import type { AgentId, InboxRecord } from './ports.ts'

/** The end of the year 9999. The relay sets message times freely, and other languages' dates end there. */
const LATEST_TIME = Date.UTC(10_000, 0) - 1

/** A member of a channel, identified by its key. */
export interface ChannelMember {
  /** SHA-256 of its public signature key, 64 hexadecimal digits. */
  readonly agentId: AgentId
  /** The agent id in groups of four digits. Compare it with the one its owner sees. */
  readonly fingerprint: string
  /** The name that this agent has chosen for itself. Nothing verifies it. */
  readonly identity: Uint8Array
}

/** @internal */
export function memberOf(agentId: AgentId, identity: Uint8Array): ChannelMember {
  return { agentId, fingerprint: fingerprintOf(agentId), identity }
}

/** A received payload with its metadata. */
export class Envelope {
  /** The bytes that were sent. */
  readonly payload: Uint8Array
  /** Verified by the signature on the message. */
  readonly sender: ChannelMember
  /** 32 hexadecimal digits, the same as `send` returned to the sender. */
  readonly messageId: string
  /** Position in the channel's log. */
  readonly index: number
  /** The epoch of the group in which it was sent: each change of members or keys begins a new one. */
  readonly epoch: number
  /** When the relay accepted the message, by the relay's clock. */
  readonly time: Date
  /** True if the message may have been delivered before without being settled. */
  readonly redelivered: boolean
  readonly #entry: Entry
  readonly #inbox: Inbox

  /** @internal Get envelopes from a channel. */
  constructor(entry: Entry, inbox: Inbox) {
    const { sender, identity, messageId, index, epoch, receivedAt } = entry.record
    this.payload = entry.payload
    this.sender = memberOf(sender, identity)
    this.messageId = toHex(messageId)
    this.index = index
    this.epoch = epoch
    this.time = timeOf(receivedAt)
    this.redelivered = entry.redelivered
    this.#entry = entry
    this.#inbox = inbox
  }

  /** Settles the message, so that it is not delivered again. Asking for the next one does this, too. */
  settle(): void {
    this.#inbox.settle(this.#entry)
  }

  /** @internal The program has a message that was read ahead. */
  markGiven(): void {
    this.#inbox.given(this.#entry)
  }

  /**
   * The payload as text.
   *
   * @throws {StaticError} `invalid_request` if it is not UTF-8
   */
  text(): string {
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(this.payload)
    } catch (cause) {
      throw StaticError.of('invalid_request', `The payload of message ${this.index} is not UTF-8 text.`, { cause })
    }
  }

  /**
   * The value in a payload of JSON, as `Channel.sendJson` sends it.
   *
   * @throws {StaticError} `invalid_json`
   */
  json(): unknown {
    try {
      return JSON.parse(this.text())
    } catch (cause) {
      throw StaticError.of('invalid_json', `The payload of message ${this.index} is not JSON.`, { cause })
    }
  }
}

/** A message that a handler has failed on too often, and that was put aside (`Channel.poison`). */
export interface PoisonMessage extends Pick<Envelope, 'payload' | 'sender' | 'messageId' | 'index' | 'epoch' | 'time'> {
  /** How often it was tried. */
  readonly attempts: number
  /** The handler's last error. */
  readonly reason: string
  /** When it was put aside, by this machine's clock. */
  readonly putAsideAt: Date
}

/** @internal */
export function poisonMessageOf({ record, payload }: PutAside): PoisonMessage {
  const { sender, identity, messageId, index, epoch, receivedAt, attempts, reason, putAsideAt } = record
  return {
    payload,
    sender: memberOf(sender, identity),
    messageId: toHex(messageId),
    index,
    epoch,
    time: timeOf(receivedAt),
    attempts,
    reason,
    putAsideAt: new Date(putAsideAt),
  }
}

function timeOf(receivedAt: InboxRecord['receivedAt']): Date {
  return new Date(Math.min(receivedAt, LATEST_TIME))
}
