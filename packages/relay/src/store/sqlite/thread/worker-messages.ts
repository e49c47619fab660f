/**
 * Messages between the two sides of the SQLite engine. Calls are answered in order. Messages, which are nearly all of
 * the traffic, travel as short tuples; an entry's body is not sent back, because the caller still has it.
 */
import type { ErrorCode, Mode } from '@static/protocol'
import type {
  Account,
  Deployment,
  StoreRequest,
  StoreResult,
  Retention,
  StoreCensus,
  StoreEvent,
  StoreOperation,
} from '../../../ports.ts'
import type { Answer, Call } from '../../call.ts'
import {
  type EntryDraft,
  type LoggingOperation,
  commitDraft,
  leaveDraft,
  messageDraft,
  placed,
} from '../../ledger/log/draft.ts'
import { Packer, type Parcel, unpackSpans } from './parcel.ts'

/** Options for starting the worker. */
export interface WorkerOptions {
  readonly path: string
  readonly retention: Retention
}

/** Messages from the worker: one when it is ready or failed to open, then one per batch. */
export type FromWorker =
  | { readonly type: 'ready'; readonly deployment: Deployment }
  | {
      readonly type: 'unable'
      readonly code: ErrorCode
      readonly message: string
    }
  | {
      readonly type: 'answers'
      readonly parcel: Parcel
      /** Whether the last write succeeded. */
      readonly healthy: boolean
      /** Number of transactions of this batch. */
      readonly transactions: number
      /** How long each commit took. */
      readonly commitMs: readonly number[]
    }
  | { readonly type: 'census'; readonly census: StoreCensus }
  /** A backup has ended. */
  | { readonly type: 'copied'; readonly path: string; readonly failed: string | undefined }

/** Messages to the worker. */
export type ToWorker =
  | { readonly type: 'calls'; readonly parcel: Parcel }
  | { readonly type: 'backup'; readonly path: string }
  | { readonly type: 'close' }

type AppendTuple = readonly [
  agent: string,
  account: string | undefined,
  mode: Mode | undefined,
  channel: string,
  slot: number,
  counter: number,
  control: boolean,
  payer: string | undefined,
  payerMode: Mode | undefined,
  now: number,
  messageId: number,
  messageIdLength: number,
  ciphertext: number,
  ciphertextLength: number,
]

/** An accepted message in a channel with room: index, whether it was charged, where its hash is. */
type AppendedTuple = readonly [index: number, charged: boolean, hash: number, hashLength: number]

/** The fields of an entry that are sent back; the caller can rebuild the rest. */
interface Placed {
  readonly type: 'placed'
  readonly index: number
  readonly hash: Uint8Array
}

export function packCalls(calls: readonly Call[]): Parcel {
  const packer = new Packer()
  for (const { name, request } of calls) {
    packer.add(
      name === 'append' && !request.file ? packAppend(packer, request) : { name, request: packer.spans(request) },
    )
  }
  return packer.finish()
}

function packAppend(packer: Packer, request: StoreRequest<'append'>): AppendTuple {
  const { actor, channel, slot, messageId, counter, control, ciphertext, paid, now } = request
  return [
    actor.agent,
    actor.account?.id,
    actor.account?.mode,
    channel,
    slot,
    counter,
    control,
    paid?.id,
    paid?.mode,
    now,
    packer.bytes(messageId),
    messageId.length,
    packer.bytes(ciphertext),
    ciphertext.length,
  ]
}

/** Decodes the calls in a parcel. */
export function unpackCalls(parcel: Parcel): Call[] {
  return parcel.items.map((item) =>
    Array.isArray(item)
      ? { name: 'append', request: unpackAppend(parcel, item as unknown as AppendTuple) }
      : (unpackSpans(parcel, item) as Call),
  )
}

function unpackAppend({ bytes }: Parcel, tuple: AppendTuple): StoreRequest<'append'> {
  const [agent, account, mode, channel, slot, counter, control, ...others] = tuple
  const [payer, payerMode, now, id, idLength, text, textLength] = others
  return {
    actor: { agent, account: accountOf(account, mode) },
    channel,
    slot,
    messageId: new Uint8Array(bytes, id, idLength),
    counter,
    control,
    ciphertext: new Uint8Array(bytes, text, textLength),
    paid: accountOf(payer, payerMode),
    now,
  }
}

function accountOf(id: string | undefined, mode: Mode | undefined): Account | undefined {
  return id === undefined || mode === undefined ? undefined : { id, mode }
}

/** Encodes answers for the caller. */
export function packAnswers(answers: readonly Answer[]): Parcel {
  const packer = new Packer()
  for (const answer of answers) packer.add(packAppended(packer, answer) ?? packer.spans(lean(answer)))
  return packer.finish()
}

function packAppended(packer: Packer, answer: Answer): AppendedTuple | undefined {
  if ('failed' in answer) return undefined
  const { result, events } = answer
  const event = events[0]
  if (event?.type !== 'appended' || events.length > 1 || !('charged' in result) || !('index' in result))
    return undefined
  if (result.pressure) return undefined
  const { hash } = event.entry
  return [result.index, result.charged, packer.bytes(hash), hash.length]
}

function lean(answer: Answer): unknown {
  if ('failed' in answer) return answer
  const events = answer.events.map((event): StoreEvent | Placed =>
    event.type === 'appended' ? { type: 'placed', index: event.entry.index, hash: event.entry.hash } : event,
  )
  return { result: answer.result, events }
}

/** Decodes the answers in a parcel, to these calls. */
export function unpackAnswers(parcel: Parcel, calls: readonly Call[]): Answer[] {
  return parcel.items.map((item, at) => {
    const call = calls[at]
    if (!call) throw new Error('an answer without a call')
    if (Array.isArray(item)) return unpackAppended(parcel, call, item as unknown as AppendedTuple)
    const answer = unpackSpans(parcel, item) as
      | { readonly result: StoreResult<StoreOperation>; readonly events: readonly (StoreEvent | Placed)[] }
      | { readonly failed: string }
    if ('failed' in answer) return answer
    const events = answer.events.map((event) => (event.type === 'placed' ? appended(call, event) : event))
    return { result: answer.result, events }
  })
}

function unpackAppended({ bytes }: Parcel, call: Call, [index, charged, hash, hashLength]: AppendedTuple): Answer {
  const event = appended(call, { type: 'placed', index, hash: new Uint8Array(bytes, hash, hashLength) })
  return { result: { index, charged }, events: [event] }
}

function appended(call: Call, { index, hash }: Placed): StoreEvent {
  const { channel } = call.request as StoreRequest<LoggingOperation>
  return { type: 'appended', channel, entry: placed(draft(call), index, hash) }
}

function draft(call: Call): EntryDraft {
  if (call.name === 'append') return messageDraft(call.request)
  if (call.name === 'commit') return commitDraft(call.request)
  if (call.name === 'leave') return leaveDraft(call.request)
  throw new Error(`${call.name} logs no entry`)
}
