/** Converts refusals of the relay to errors. */
import { peerSentence, peerText } from '@static/node/peer-text'
import { ERRORS, type ErrorCode, StaticError, toHex } from '@static/protocol'
import type { Error as Refusal } from '@static/protocol/relay'

const MS_PER_SECOND = 1000
const LONGEST_RETRY_MS = 600_000
/** The longest messages of an honest relay explain a full channel. */
const MOST_CHARACTERS = 400
/** The number of lagging members named in an error. */
const MOST_NAMED = 8

/**
 * The error for a refusal. A code that this version does not know, from a newer relay, becomes `internal_error`. People
 * and language models read errors, so the relay's text in them is one line of bounded length.
 */
export function refusalError({ code, message, retryAfterMs, lagging }: Refusal): StaticError {
  const known = isCode(code)
  const text = known
    ? wordsOf(code, message)
    : `The relay refused with unknown code "${peerText(code)}": ${peerSentence(message, MOST_CHARACTERS)}`
  const members = lagging
    .slice(0, MOST_NAMED)
    .map(({ agentId, waiting }) => ({ agent: toHex(agentId), waiting: Number(waiting) }))
  const names = members.map(({ agent, waiting }) => `${agent.slice(0, 8)}… (${waiting})`).join(', ')
  return StaticError.of(known ? code : 'internal_error', names === '' ? text : `${text} Furthest behind: ${names}.`, {
    ...(retryAfterMs === undefined ? {} : { retryAfter: retryAfterMs / MS_PER_SECOND }),
    ...(members.length === 0 ? {} : { lagging: members }),
  })
}

/** The delay before a retry: as the relay requests, within limits. */
export function retryDelay(retryAfterMs: number | undefined): number {
  return Math.min(retryAfterMs ?? MS_PER_SECOND, LONGEST_RETRY_MS)
}

/** The sentences in the error table may be longer than a peer's. */
function wordsOf(code: ErrorCode, message: string): string {
  const { help } = ERRORS[code]
  return message === help ? help : peerSentence(message, MOST_CHARACTERS) || help
}

function isCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERRORS, code)
}
