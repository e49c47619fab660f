/** Facts that a model must know about a channel besides its messages. */
import type { AgentEvent } from '@static/sdk'

/** An entry that is not a message. */
export type Notice =
  /** An identity is used with a different key than before. */
  | { readonly notice: 'key_changed'; readonly identity: string; readonly known: string; readonly now: string }
  /** The relay deleted entries before this agent fetched them. */
  | { readonly notice: 'gap'; readonly first: number; readonly last: number }
  /** A member reports that it was shown a different history. Sending has stopped. */
  | { readonly notice: 'fork'; readonly identity: string; readonly member: string }
  /** The channel cannot continue on this agent. */
  | { readonly notice: 'failed'; readonly code: string; readonly message: string }

/** The notice for an event, and its channel; undefined if the event is not for a model. */
export function noticeOf(event: AgentEvent): { readonly channel: string; readonly notice: Notice } | undefined {
  switch (event.type) {
    case 'identity_changed': {
      const { channel, known, now } = event
      return {
        channel,
        notice: { notice: 'key_changed', identity: Buffer.from(event.identity).toString(), known, now },
      }
    }
    case 'gap':
      return { channel: event.channel, notice: { notice: 'gap', first: event.first, last: event.last } }
    case 'fork_detected': {
      const { channel, member } = event
      return { channel, notice: { notice: 'fork', identity: Buffer.from(event.identity).toString(), member } }
    }
    case 'channel_failed': {
      const { code, message } = event.error
      return { channel: event.channel, notice: { notice: 'failed', code, message } }
    }
    default:
      return undefined
  }
}

/** Whether a value is a notice of an event. */
export function isNotice(value: unknown): value is Notice {
  if (typeof value !== 'object' || value === null) return false
  const { notice, identity, known, now, first, last, member, code, message } = value as Readonly<
    Record<string, unknown>
  >
  const isText = (text: unknown): boolean => typeof text === 'string'
  if (notice === 'key_changed') return [identity, known, now].every(isText)
  if (notice === 'gap') return Number.isInteger(first) && Number.isInteger(last)
  if (notice === 'failed') return isText(code) && isText(message)
  return notice === 'fork' && isText(identity) && isText(member)
}
