/**
 * The history of one channel: the messages that the application has settled and those that this agent has sent, for an
 * agent that keeps them (keeping.ts). Each is kept by a change in the very transaction that settles it, so that a
 * crash leaves a message either to be delivered again or in the history. Not the history of the log (log/history.ts).
 */
import { StaticError } from '@static/protocol'
import type { AgentContext } from '../../agent/context.ts'
import type { Change, ChannelId, InboxRecord, KeptRecord, OutboxRecord } from '../../ports/index.ts'
import { decodeRequest } from '../asking/ask-frame.ts'
import type { AnswerEntry } from '../asking/open-ask.ts'
import type { Content } from '../receiving/content.ts'
import { decodeFrame } from '../sending/message-frame.ts'
import { sentContents } from './kept-frame.ts'
import { type Amount, KeptLog, MOST_KEPT_BYTES, MOST_KEPT_MESSAGES } from './kept-log.ts'

/** The context it needs from the agent. */
type KeptContext = Pick<AgentContext, 'agentId' | 'engine' | 'journal' | 'keeping' | 'now'>

/** The share of the limits that is added before the next sweep. */
const SHARE: number = 1 / 4
/** Counted for each message besides its content. */
const OVERHEAD = 256
const NONE: readonly Change[] = []

/** The kept messages of one channel. */
export class KeptMessages {
  readonly #context: KeptContext
  readonly #id: ChannelId
  readonly #log: KeptLog
  /** What was added since the last sweep, and since its last step. */
  #unswept = { messages: 0, bytes: 0 }
  #added = { messages: 0, bytes: 0 }

  constructor(context: KeptContext, id: ChannelId) {
    this.#context = context
    this.#id = id
    this.#log = new KeptLog(context.journal, id)
  }

  get isOn(): boolean {
    return this.#context.keeping.isOn
  }

  /** The application has settled a message. Returns the changes that belong into the same transaction. */
  received(record: InboxRecord, content: Content): readonly Change[] {
    if (!this.isOn) return NONE
    return [this.#keep({ ...ofReceived(record), ...ofContent(content), kind: content.file ? 'file' : 'payload' })]
  }

  /** The application has answered a request. */
  answered(record: InboxRecord, bytes: Uint8Array): readonly Change[] {
    const payload = this.isOn ? decodeRequest(bytes)?.payload : undefined
    return payload ? [this.#keep({ ...ofReceived(record), ...ofContent({ payload }), kind: 'request' })] : NONE
  }

  /** The application has read an answer. Errors are not kept. */
  read({ record, content }: AnswerEntry, requestId: Uint8Array): readonly Change[] {
    if (!this.isOn || !('payload' in content)) return NONE
    return [this.#keep({ ...ofReceived(record), ...ofContent(content), kind: 'answer', requestId })]
  }

  /** The relay has stored a message of this agent, at this index, by its own word. */
  sent({ control, ciphertext, messageKey }: OutboxRecord, index: number): readonly Change[] {
    const { engine, agentId, keeping } = this.#context
    if (!this.isOn || control || !Number.isSafeInteger(index)) return NONE
    const frame = decodeFrame(engine.reopen(ciphertext, messageKey))
    if (!frame) throw StaticError.of('store_corrupt', 'A message in the outbox is malformed.')
    const by = { index, sender: agentId, identity: keeping.identity, receivedAt: this.#context.now() }
    return sentContents(frame).map(({ part, messageId, kind, requestId, ...content }) =>
      this.#keep({ ...by, ...ofContent(content), part, messageId: Uint8Array.from(messageId), kind, requestId }),
    )
  }

  /** The messages before an index, the newest first; see `KeptLog.page`. */
  page(before: number | undefined, limit: number): readonly KeptRecord[] {
    const { keeping } = this.#context
    return keeping.since === undefined ? [] : this.#log.page(before, limit, keeping.since)
  }

  /** Deletes what is over. Only for `Keeping`, which sweeps one channel at a time. */
  async sweep(): Promise<void> {
    const { since } = this.#context.keeping
    this.#unswept = { messages: 0, bytes: 0 }
    this.#takeAdded()
    if (since !== undefined) await this.#log.sweep(since, () => this.#takeAdded())
  }

  /** Deletes all messages. The caller makes a checkpoint, so that they do not stay readable in the file. */
  async erase(): Promise<void> {
    await this.#log.erase()
  }

  #takeAdded(): Amount {
    const added = this.#added
    this.#added = { messages: 0, bytes: 0 }
    return added
  }

  #keep(message: Omit<KeptRecord, 'keptAt' | 'bytes'>): Change {
    const { payload, fileName = '', fileType = '' } = message
    const bytes = OVERHEAD + payload.length + fileName.length + fileType.length
    for (const amount of [this.#unswept, this.#added]) {
      amount.messages++
      amount.bytes += bytes
    }
    // Members can send faster than the timer sweeps.
    const { messages, bytes: unswept } = this.#unswept
    if (messages > MOST_KEPT_MESSAGES * SHARE || unswept > MOST_KEPT_BYTES * SHARE) {
      this.#context.keeping.sweepSoon(this)
    }
    return { type: 'putKept', id: this.#id, record: { ...message, keptAt: this.#context.now(), bytes } }
  }
}

type Received = Pick<KeptRecord, 'index' | 'part' | 'sender' | 'messageId' | 'identity' | 'receivedAt'>

function ofReceived({ index, part, sender, messageId, identity, receivedAt }: InboxRecord): Received {
  return { index, part, sender, messageId, identity, receivedAt }
}

function ofContent({
  payload,
  file,
}: Content): Pick<KeptRecord, 'payload' | 'requestId' | 'fileName' | 'fileSize' | 'fileType'> {
  return { payload, requestId: undefined, fileName: file?.name, fileSize: file?.size, fileType: file?.type }
}
