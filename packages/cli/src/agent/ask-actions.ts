/**
 * The actions of commands on requests. A request stays open between two calls and is found again by its id, even if it
 * has ended meanwhile, because its end may be an error.
 */
import { StaticError } from '@static/protocol'
import type { Answer, Ask, Channel, StaticChannelManager } from '@static/sdk'
import { findMember, type MemberSummary, membersOf, type SenderSummary, senderOf } from './members.ts'

/** An answer, as `ask --json` prints it. */
export interface AnswerSummary {
  readonly index: number
  readonly message_id: string
  readonly time: string
  readonly sender: SenderSummary
  /** Base64. */
  readonly payload?: string
  /** Why the member did not answer. */
  readonly error?: { readonly code: string; readonly message: string }
}

/** What has arrived for a request and is not settled. */
export interface GatheredAnswers {
  /** The oldest first; not all of them, if they are too large for one answer of the socket. */
  readonly answers: readonly AnswerSummary[]
  /** Whether nothing more will arrive. */
  readonly over: boolean
  /** The members that were asked and have not ended their answers. */
  readonly missing: readonly MemberSummary[]
}

/** The size of the answers that are gathered at once, unless a single one is larger. */
const MOST_GATHERED_BYTES = 256 * 1024
const MS = 1000

/** The requests of each manager, until their last answer is fetched or they time out. */
const ASKS = new WeakMap<StaticChannelManager, Map<string, Ask>>()

/** Asks the member given by identity, agent id or its first digits, or all (''). Returns the request's id. */
export function startAsk(
  manager: StaticChannelManager,
  name: string,
  { payload, member, timeout }: { readonly payload: Buffer; readonly member: string; readonly timeout: number },
): string {
  const channel = manager.client.channel(name)
  const to = member === '' ? {} : { to: findMember(membersOf(manager, channel), name, member).agent_id }
  const ask = channel.ask(payload, { ...to, timeout })
  const asks = ASKS.get(manager) ?? new Map<string, Ask>()
  // Their commands ended before all answers arrived.
  for (const { id, deadline } of asks.values()) if (deadline.getTime() < Date.now()) asks.delete(id)
  ASKS.set(manager, asks.set(ask.id, ask))
  return ask.id
}

/**
 * The next answer to a request; null at the end.
 *
 * @throws {StaticError} as `Ask.next`, and `not_found` if there is no such request
 */
export async function nextAnswer(
  manager: StaticChannelManager,
  name: string,
  id: string,
): Promise<AnswerSummary | null> {
  const channel = manager.client.channel(name)
  const ask = openAsk(manager, channel, id)
  let isOpen = false
  try {
    const { value } = await ask.next()
    isOpen = value !== undefined
    return value ? answerOf(channel, value) : null
  } finally {
    if (!isOpen) ASKS.get(manager)?.delete(id)
  }
}

/**
 * Waits up to `wait` seconds until answers to a request have arrived, and settles none of them.
 *
 * @throws {StaticError} the error that ended the request once its answers are settled, and `not_found` if there is no
 *   such request
 */
export async function gatherAnswers(
  manager: StaticChannelManager,
  name: string,
  id: string,
  wait: number,
): Promise<GatheredAnswers> {
  const channel = manager.client.channel(name)
  const ask = openAsk(manager, channel, id)
  await ask.arrival(AbortSignal.timeout(wait * MS))
  const answers: AnswerSummary[] = []
  const { unread, end } = ask
  let bytes = 0
  for (const answer of unread) {
    bytes += answer.error ? 0 : answer.payload.length
    if (answers.length > 0 && bytes > MOST_GATHERED_BYTES) break
    answers.push(answerOf(channel, answer))
  }
  if (unread.length === 0 && end?.error) throw end.error
  const missing = new Set(ask.missing)
  return {
    answers,
    over: end !== undefined && answers.length === unread.length,
    missing: membersOf(manager, channel).filter(({ agent_id: member }) => missing.has(member)),
  }
}

/** What tells an answer from the others to its request. */
export function placeOf({ index, message_id: id }: Pick<AnswerSummary, 'index' | 'message_id'>): string {
  return `${index} ${id}`
}

/** Settles the oldest answers to a request, as far as they are those at these places. */
export function settleAnswers(
  manager: StaticChannelManager,
  name: string,
  id: string,
  places: readonly string[],
): void {
  const ask = findAsk(manager, manager.client.channel(name), id)
  if (!ask) return
  let count = 0
  for (const { index, messageId } of ask.unread) {
    if (placeOf({ index, message_id: messageId }) !== places[count]) break
    count++
  }
  ask.settle(count)
}

/** Cancels a request, if it is open. */
export function cancelAsk(manager: StaticChannelManager, name: string, id: string): void {
  findAsk(manager, manager.client.channel(name), id)?.cancel()
  ASKS.get(manager)?.delete(id)
}

function findAsk(manager: StaticChannelManager, channel: Channel, id: string): Ask | undefined {
  return ASKS.get(manager)?.get(id) ?? channel.asked().find((each) => each.id === id)
}

function openAsk(manager: StaticChannelManager, channel: Channel, id: string): Ask {
  const ask = findAsk(manager, channel, id)
  if (!ask) throw StaticError.of('not_found', `Request ${id} is not open. It was answered or has timed out.`)
  return ask
}

function answerOf(channel: Channel, answer: Answer): AnswerSummary {
  const { index, messageId, epoch, time, sender, error } = answer
  const shown = senderOf(channel, epoch, sender)
  const fields = { index, message_id: messageId, time: time.toISOString(), sender: shown }
  if (!error) return { ...fields, payload: Buffer.from(answer.payload).toString('base64') }
  const { code, message } = error.details.answer ?? StaticError.of('internal_error')
  return { ...fields, error: { code, message } }
}
