/**
 * Warnings about failing handlers of the application: without them, a mistake in a handler would go unnoticed in a
 * program that does not read events. A sender can make handlers fail as often as it likes, so the warnings are limited.
 * A trust list that cannot be read and a statement that ends are warned of as well: that shows before a program can read
 * events.
 */
import { shortFingerprint, StaticError } from '@static/protocol'
import type { Logger, Time } from '../../ports/index.ts'
import { errorText } from './error-text.ts'
import type { AgentEvent } from '../events.ts'

/** The log of an agent. */
export interface AgentLog {
  readonly logger: Logger
  /** Whether it gets warnings only while the application reads no events. */
  readonly unlessRead: boolean
}

/** What a handler threw, and for what. */
export interface HandlerFailure {
  readonly error: unknown
  readonly payload: Uint8Array
}

type FailureEvent = Extract<
  AgentEvent,
  { readonly type: 'handler_failed' | 'poison' | 'request_failed' | 'trust_failed' | 'proof_ending' }
>

const WINDOW_MS = 60_000
/** Warnings in one window. */
const MOST = 30

/** Warns about failed handlers. */
export class HandlerLog {
  readonly #log: AgentLog
  readonly #now: () => Time
  readonly #isRead: () => boolean
  #windowEnd: Time = 0
  #written = 0
  #skipped = 0

  /** `isRead` says whether the application reads events. */
  constructor(log: AgentLog, now: () => Time, isRead: () => boolean) {
    this.#log = log
    this.#now = now
    this.#isRead = isRead
  }

  /** Warns about an event, with what the handler threw, if that is known. */
  warn(event: FailureEvent, failure: HandlerFailure | undefined): void {
    // Such an error of `serve` is an answer: the asker gets its code and message.
    if (event.type === 'request_failed' && failure?.error instanceof StaticError) return
    if (this.#log.unlessRead && this.#isRead()) return
    const now = this.#now()
    if (now >= this.#windowEnd) {
      this.#windowEnd = now + WINDOW_MS
      this.#written = 0
    }
    if (this.#written >= MOST) return void this.#skipped++
    this.#written++
    const skipped = this.#skipped > 0 ? ` ${this.#skipped} failures before it were not shown.` : ''
    this.#skipped = 0
    const lines = [`static: ${sentenceOf(event)}${skipped}`]
    if (failure) lines.push(errorText(failure.error, failure.payload))
    try {
      this.#log.logger.warn(lines.join('\n'))
    } catch {
      // A broken logger must not stop the handling of messages.
    }
  }
}

const FAILURES: ReadonlySet<AgentEvent['type']> = new Set([
  'handler_failed',
  'poison',
  'request_failed',
  'trust_failed',
  'proof_ending',
] satisfies FailureEvent['type'][])

/** Whether an event is about a handler, the trust list or a statement. */
export function isFailure(event: AgentEvent): event is FailureEvent {
  return FAILURES.has(event.type)
}

function sentenceOf(event: FailureEvent): string {
  if (event.type === 'trust_failed') return `Proofs cannot be checked. ${event.error.message}`
  if (event.type === 'proof_ending')
    return `The statement of ${event.domain} about this agent ends at ${event.until.toISOString()}. Have it signed again: \`static domain sign\`.`
  const from = `from agent ${shortFingerprint(event.sender)}`
  const place = `in channel ${event.channel}`
  if (event.type === 'request_failed')
    return `The handler of \`serve\` failed on request ${event.index} ${from} ${place}. The asker got \`internal_error\`.`
  const what = `The handler of \`handle\` failed on message ${event.messageId} ${from} ${place}`
  if (event.type === 'handler_failed')
    return `${what}, attempt ${event.attempts}. It is called again in ${event.retryInMs / 1000} s.`
  return event.isPutAside
    ? `${what}, attempt ${event.attempts}. The message was put aside: \`channel.poison\`.`
    : `${what}, attempt ${event.attempts}. It cannot be put aside, because too many messages are: \`channel.poison\`.`
}
