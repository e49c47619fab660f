/**
 * What commands do with requests. A request stays open between two calls, so it is found again by its id; also one that has
 * ended meanwhile, because its end may be an error.
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

/** The requests of each manager, until their last answer was fetched or they have timed out. */
const ASKS = new WeakMap<StaticChannelManager, Map<string, Ask>>()

/** Asks the member with this identity, agent id or beginning of one, or all (''). Returns the request's id. */
export function startAsk(
  manager: StaticChannelManager,
  name: string,
  { payload, member, timeout }: { readonly payload: Buffer; readonly member: string; readonly timeout: number },
): string {
  const channel = manager.client.channel(name)
  const to = member === '' ? {} : { to: findMember(membersOf(manager, channel), name, member).agent_id }
  const ask = channel.ask(payload, { ...to, timeout })
  const asks = ASKS.get(manager) ?? new Map<string, Ask>()
  // Their commands were ended before they had all answers.
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
  if (!ask) throw StaticError.of('not_found', `Request ${id} is not open. It has been answered, or has timed out.`)
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
