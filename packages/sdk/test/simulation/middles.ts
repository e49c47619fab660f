/** Who is in the middle of the lines of a story: everything passes but what the story holds up. */
import { create } from '@bufbuild/protobuf'
import { type ClientMessage, ErrorSchema } from '@static/protocol/relay'
import type { Middle, MiddleLine } from '@static/testkit/world/middle'
import { serverMessage } from './liar.ts'

/** Lets everything pass. */
export const HONEST: Middle = {
  asked: (_line, message) => [message],
  acknowledged: () => true,
  said: (_line, message) => [message],
}

/** Refuses a request in the relay's name. Returns what reaches the relay: nothing. */
export function refuse(
  line: MiddleLine,
  { requestId }: ClientMessage,
  code: string,
  retryAfterMs = 0,
  more: { readonly head?: bigint } = {},
): [] {
  const value = create(ErrorSchema, { code, message: 'Not now.', retryAfterMs, ...more })
  line.say(serverMessage(requestId, { case: 'error', value }))
  return []
}

/** Refuses some requests with a code; they may be repeated after a second. */
export function refusing(code: string, isRefused: (line: MiddleLine, message: ClientMessage) => boolean): Middle {
  return {
    ...HONEST,
    asked: (line, message) => (isRefused(line, message) ? refuse(line, message, code, 1000) : [message]),
  }
}
