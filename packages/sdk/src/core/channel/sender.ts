/**
 * Own messages of one channel: from `send` to the relay's answer. A message is encrypted when there is room, stored,
 * then sent. When the group has moved on meanwhile the relay refuses it; it is then opened again by its own key and
 * encrypted for the new epoch under the same id, in order with the others.
 */
import { StaticError } from '@static/protocol'
import type { Change, ChannelId, Outcome, OutboxRecord, StoredChannel } from '../../ports.ts'
import { refusalError, retryDelay } from '../../session/refusal.ts'
import { decodeFrame, encodeFrame, type Frame, type FrameKind } from './message-frame.ts'
import type { GroupState } from './group-state.ts'
import { type History, sha256 } from './history.ts'
import { newMessageId } from '../agent/message-id.ts'
import { Outbox, type Outgoing, type Sending } from './outbox.ts'
import type { World } from '../agent/context.ts'

/** A payload that waits to be encrypted. */
interface Waiting extends Sending {
  readonly kind: FrameKind
  readonly payload: Uint8Array
}

/** What a sender asks of its membership. */
export interface SenderHost {
  readonly world: World
  readonly id: ChannelId
  readonly channelId: Uint8Array
  readonly history: History
  /** Something is to be written. */
  touch(): void
  /** The same, with whatever is written next. */
  touchLater(): void
  /** Tries to go on. */
  work(): void
  /** The relay's count of commits is at least this. */
  headIs(head: number): void
  /** The channel cannot go on. */
  break(error: StaticError): void
}

/** How often the first message is sent again for being out of order, without one that is taken. */
const MOST_REORDERS = 5

/** The sending side of a membership. */
export class Sender {
  readonly #host: SenderHost
  readonly #outbox: Outbox
  #waiting: Waiting[] = []
  /** The counter of the last message that was encrypted, and the hash of its frame. */
  counter: number
  ownHash: Uint8Array
  /** How many were encrypted since this agent last replaced its keys. */
  sentSinceRekey: number
  #notBefore = 0
  #callOff: (() => void) | undefined
  #reorders = 0
  /** Why nothing of what is under way is taken. */
  #inTheWay: StaticError | undefined

  constructor(host: SenderHost, { record, outbox, answered }: Pick<StoredChannel, 'record' | 'outbox' | 'answered'>) {
    this.#host = host
    this.#outbox = new Outbox(record.id, outbox, answered)
    this.counter = record.counter
    this.ownHash = record.ownHash
    this.sentSinceRekey = record.sentSinceRekey
  }

  /** Takes a message; `sending` is told when the relay has it. */
  send(kind: FrameKind, payload: Uint8Array, sending: Sending): void {
    this.#waiting.push({ kind, payload, resolve: () => sending.resolve(), reject: (error) => sending.reject(error) })
  }

  /** Encrypts what there is room for. The group must be in use and stay so until the turn is over. */
  work(group: GroupState): void {
    if (this.#host.world.now() < this.#notBefore) return
    if (this.#outbox.isSettled) this.#recover(group)
    while (this.#outbox.hasRoom) {
      const waiting = this.#waiting.shift()
      if (!waiting) return
      this.#encrypt(group, waiting)
    }
  }

  /** What was drained is on disk. */
  written(): void {
    this.#outbox.written()
  }

  /** Sends what is stored. */
  transmit(): void {
    if (this.#host.world.now() < this.#notBefore) return
    const { session } = this.#host.world
    for (const message of this.#outbox.take()) {
      const { messageId, counter, slot, control, ciphertext } = message.record
      session.request(
        {
          case: 'sendMessage',
          value: {
            $typeName: 'static.relay.v1.SendMessageRequest',
            channelId: this.#host.channelId,
            slot: BigInt(slot),
            messageId,
            counter: BigInt(counter),
            control,
            ciphertext,
          },
        },
        (outcome) => this.#answered(message, outcome),
      )
    }
  }

  /** The session is over. */
  lose(): void {
    this.#inTheWay = undefined
    this.#outbox.lose()
  }

  /** An own entry passes in the log: the hash of its body, if it is one of these. */
  pass(messageId: Uint8Array): Uint8Array | undefined {
    return this.#outbox.pass(messageId)
  }

  /** What waits is not sent; what is under way stays so. */
  refuse(error: StaticError): void {
    for (const waiting of this.#waiting.splice(0)) waiting.reject(error)
  }

  /** Nothing will be sent any more. */
  fail(error: StaticError): void {
    this.#callOff?.()
    this.refuse(error)
    this.#outbox.fail(error)
  }

  drain(): readonly Change[] {
    return this.#outbox.drain()
  }

  #encrypt(group: GroupState, waiting: Waiting): void {
    const { world } = this.#host
    const messageId = newMessageId(world)
    let record: OutboxRecord
    try {
      record = this.#seal(group, { kind: waiting.kind, messageId, payload: waiting.payload })
    } catch (error) {
      waiting.reject(StaticError.from(error))
      return
    }
    this.#outbox.add(record, waiting)
    this.#host.touch()
  }

  #seal(group: GroupState, message: Pick<Frame, 'messageId' | 'payload'> & { kind: FrameKind }): OutboxRecord {
    const { position } = this.#host.history
    const counter = this.counter + 1
    const plaintext = encodeFrame({ ...message, counter, previous: this.ownHash, seen: position })
    const { ciphertext, messageKey } = group.seal(plaintext)
    this.counter = counter
    this.sentSinceRekey++
    this.ownHash = sha256(plaintext)
    plaintext.fill(0)
    const control = message.kind !== 'payload'
    return { messageId: message.messageId, counter, control, slot: position.slot, ciphertext, messageKey }
  }

  #answered(message: Outgoing, outcome: Outcome): void {
    switch (outcome.type) {
      case 'answered':
        this.#reorders = 0
        this.#outbox.answer(message)
        // Without it, the message is sent again after a crash, and answered in the same way.
        this.#host.touchLater()
        break
      case 'lost':
        // The next session sends it again.
        return
      case 'refused':
        this.#refused(message, outcome.error)
        break
    }
    this.#host.work()
  }

  #refused(message: Outgoing, refusal: Extract<Outcome, { type: 'refused' }>['error']): void {
    switch (refusal.code) {
      case 'epoch_mismatch':
        this.#host.headIs(Number(refusal.head ?? 0n))
        this.#outbox.refuse(message, undefined)
        return
      case 'out_of_order': {
        this.#outbox.refuse(message, undefined)
        const last = Number(refusal.lastCounter ?? 0n)
        const [first] = this.#outbox.unanswered
        if (last >= message.record.counter && last >= (first?.record.counter ?? 0)) {
          this.#host.break(StaticError.of('store_rolled_back'))
        } else if (message === first && ++this.#reorders > MOST_REORDERS) {
          // Those behind another that was refused are out of order by that; the first one follows what was answered.
          this.#host.break(StaticError.of('mls_error', 'The relay has lost messages of this agent.'))
        }
        return
      }
      case 'unavailable':
      case 'rate_limited':
        this.#outbox.refuse(message, undefined)
        this.#waitFor(retryDelay(refusal.retryAfterMs))
        return
      case 'too_large':
      case 'invalid_request':
        this.#outbox.refuse(message, refusalError(refusal))
        return
      default:
        // The channel or the account is in the way: of those that follow none would be taken, either.
        this.#inTheWay = refusalError(refusal)
        this.#outbox.refuse(message, this.#inTheWay)
    }
  }

  #waitFor(milliseconds: number): void {
    const { world } = this.#host
    this.#notBefore = Math.max(this.#notBefore, world.now() + milliseconds)
    this.#callOff?.()
    this.#callOff = world.later(this.#notBefore - world.now(), () => {
      // By the clock a timer may be a little early, and nothing else would wake it.
      this.#notBefore = 0
      this.#host.work()
    })
  }

  /** Everything is answered: what was refused goes out again, encrypted anew if it must be. */
  #recover(group: GroupState): void {
    if (this.#inTheWay) this.#outbox.refuseAll(this.#inTheWay)
    this.#inTheWay = undefined
    const { unanswered } = this.#outbox
    const { slot } = this.#host.history.position
    const [first] = unanswered
    const sameBytes = unanswered.every(({ state, record }) => state !== 'failed' && record.slot === slot)
    if (first === undefined || sameBytes) {
      this.#outbox.recover(undefined)
    } else {
      // What the first one followed is what the first of the rest follows now.
      const base = this.#frameOf(first)
      this.counter = base.counter - 1
      this.ownHash = Uint8Array.from(base.previous)
      this.#outbox.recover((message) => {
        const { kind, messageId, payload } = this.#frameOf(message)
        return this.#seal(group, { kind: kind ?? 'heartbeat', messageId: Uint8Array.from(messageId), payload })
      })
    }
    this.#host.touch()
  }

  #frameOf({ record }: Outgoing): Frame {
    const frame = decodeFrame(this.#host.world.engine.reopen(record.ciphertext, record.messageKey))
    if (frame === undefined) throw StaticError.of('store_corrupt', 'A message in the outbox is not readable.')
    return frame
  }
}
