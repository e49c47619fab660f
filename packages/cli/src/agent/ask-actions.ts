/**
 * The actions of commands on requests. A request stays open between two calls and is found again by its id, even if it
 * has ended meanwhile, because its end may be an error.
 */
import { StaticError } from '@static/protocol'
import type { Answer, Ask, Channel, StaticChannelManager } from '@static/sdk'
import { findMember, membersOf, type SenderSummary, senderOf } from './members.ts'

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
  const asks = ASKS.get(manager)
  const channel = manager.client.channel(name)
  const ask = asks?.get(id) ?? channel.asked().find((each) => each.id === id)
  if (!ask) throw StaticError.of('not_found', `Request ${id} is not open. It was answered or has timed out.`)
  let isOpen = false
  try {
    const { value } = await ask.next()
    isOpen = value !== undefined
    return value ? answerOf(channel, value) : null
  } finally {
    if (!isOpen) asks?.delete(id)
  }
}

function answerOf(channel: Channel, answer: Answer): AnswerSummary {
  const { index, messageId, epoch, time, sender, error } = answer
  const shown = senderOf(channel, epoch, sender)
  const fields = { index, message_id: messageId, time: time.toISOString(), sender: shown }
  if (!error) return { ...fields, payload: Buffer.from(answer.payload).toString('base64') }
  const { code, message } = error.details.answer ?? StaticError.of('internal_error')
  return { ...fields, error: { code, message } }
}
