/** What commands do with requests. A request stays open between two calls, so it is found again by its id. */
import { StaticError } from '@static/protocol'
import type { Answer, StaticChannelManager } from '@static/sdk'
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

/** Asks the member with this identity, agent id or beginning of one, or all (''). Returns the request's id. */
export function startAsk(
  manager: StaticChannelManager,
  name: string,
  { payload, member, timeout }: { readonly payload: Buffer; readonly member: string; readonly timeout: number },
): string {
  const channel = manager.client.channel(name)
  const to = member === '' ? {} : { to: findMember(membersOf(manager, channel), name, member).agent_id }
  return channel.ask(payload, { ...to, timeout }).id
}

/** The next answer to a request; null at the end. */
export async function nextAnswer(
  manager: StaticChannelManager,
  name: string,
  id: string,
): Promise<AnswerSummary | null> {
  const asked = manager.client.channel(name).asked()
  const { value } = (await asked.find((ask) => ask.id === id)?.next()) ?? {}
  return value ? answerOf(value) : null
}

function answerOf(answer: Answer): AnswerSummary {
  const { index, messageId, time, sender, error } = answer
  const fields = { index, message_id: messageId, time: time.toISOString(), sender: senderOf(sender) }
  if (!error) return { ...fields, payload: Buffer.from(answer.payload).toString('base64') }
  const { code, message } = error.details.answer ?? StaticError.of('internal_error')
  return { ...fields, error: { code, message } }
}
