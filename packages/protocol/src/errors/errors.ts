/** The classes that carry the codes of the table: one per family (SPEC.md, "Errors"). */
import { redactSecrets, redactValue } from './redact.ts'
import { type ErrorCode, type ErrorRow, ERRORS } from './table.ts'

/** Optional details of an error, besides its code and message. */
export interface ErrorDetails {
  /** The underlying error. Logged, never sent to the peer. */
  readonly cause?: unknown
  /** Seconds to wait before a retry. */
  readonly retryAfter?: number
  /** The invalid fields of the request. */
  readonly errors?: readonly { readonly field: string; readonly message: string }[]
  /** With `queue_full`: the members with unfetched entries and how many, furthest behind first. */
  readonly lagging?: readonly { readonly agent: string; readonly waiting: number }[]
  /** With `ask_failed`: the code and text that the asked member sent. */
  readonly answer?: { readonly code: string; readonly message: string }
  /** With `cancelled` of `Channel.reached`: the agent ids of the members that have not confirmed the message. */
  readonly missing?: readonly string[]
  /** The resource that already exists. */
  readonly resourceId?: string
  /** With `relay_changed`: the relay that the agent knows, if any, and the one that answers under its name. */
  readonly relay?: { readonly name: string; readonly known: string | null; readonly answering: string }
}

/** An error as JSON. */
export interface ErrorJson extends Omit<ErrorDetails, 'cause'> {
  readonly name: string
  readonly code: ErrorCode
  readonly message: string
  readonly retryable: boolean
  readonly docUrl?: string
  readonly cause?: { readonly code?: string; readonly message: string }
}

/** The page of an API that explains a code. */
export function docUrlOf(apiUrl: string, code: ErrorCode): string {
  return `${apiUrl}/docs/errors#${code}`
}

/**
 * The base class of all errors. API keys, tokens and invite links are removed from its message, from the texts in its
 * details, and from the errors and other values that caused it.
 */
export class StaticError extends Error {
  /** The error code, for programs. */
  readonly code: ErrorCode
  /** Additional details of the error. */
  readonly details: ErrorDetails
  #docUrl: string | undefined

  constructor(code: ErrorCode, message?: string, details: ErrorDetails = {}) {
    const shown = shownDetails(details)
    const words = message === undefined ? ERRORS[code].help : redactSecrets(message)
    super(words, shown.cause === undefined ? undefined : { cause: shown.cause })
    this.name = ERRORS[code].family
    this.code = code
    this.details = shown
  }

  /** The HTTP status for the code. */
  get httpStatus(): number {
    return ERRORS[this.code].status
  }

  /** Whether retrying the same call unchanged can succeed. */
  get retryable(): boolean {
    return ERRORS[this.code].retryable
  }

  /** The page that explains the error, if the address of the API is known. */
  get docUrl(): string | undefined {
    return this.#docUrl
  }

  /** Sets `docUrl` to the page of this API. Only the first call with an address has an effect. */
  explainAt(apiUrl: string | undefined): void {
    if (apiUrl !== undefined) this.#docUrl ??= docUrlOf(apiUrl, this.code)
  }

  /** The value that `JSON.stringify` writes, for logs and other processes. The cause is included without its stack. */
  toJSON(): ErrorJson {
    const { retryAfter, errors, answer, missing, resourceId, relay } = this.details
    return {
      name: this.name,
      code: this.code,
      message: this.message,
      retryable: this.retryable,
      ...(this.docUrl !== undefined && { docUrl: this.docUrl }),
      ...(retryAfter !== undefined && { retryAfter }),
      ...(errors !== undefined && { errors }),
      ...(answer !== undefined && { answer }),
      ...(missing !== undefined && { missing }),
      ...(resourceId !== undefined && { resourceId }),
      ...(relay !== undefined && { relay }),
      ...(this.cause !== undefined && { cause: causeJson(this.cause) }),
    }
  }

  /** Creates an error of the class that belongs to the code. */
  static of(code: ErrorCode, message?: string, details?: ErrorDetails): StaticError {
    return new FAMILIES[ERRORS[code].family](code, message, details)
  }

  /** Passes a StaticError through and wraps anything else as `internal_error`. */
  static from(error: unknown): StaticError {
    if (error instanceof StaticError) return error
    return new StaticError('internal_error', 'Static failed because of a bug.', { cause: error })
  }
}

/**
 * The details without secrets in their texts. Ids of agents and relays stay: programs use them, and one can look like a
 * secret.
 */
function shownDetails(details: ErrorDetails): ErrorDetails {
  const { lagging: _lagging, relay: _relay, ...texts } = details
  // One by one: a long list of errors must not hide the cause.
  const shown = Object.entries(texts).map(([name, value]) => ({ name, value, shown: redactValue(value) }))
  if (shown.every(({ value, shown }) => Object.is(value, shown))) return details
  return { ...details, ...(Object.fromEntries(shown.map(({ name, shown }) => [name, shown])) as ErrorDetails) }
}

function causeJson(cause: unknown): NonNullable<ErrorJson['cause']> {
  if (cause instanceof StaticError) return { code: cause.code, message: cause.message }
  try {
    return { message: cause instanceof Error ? cause.message : String(cause) }
  } catch {
    // An object without a prototype has no text.
    return { message: 'unknown' }
  }
}

/** The credential is missing, wrong or insufficient. */
export class AuthError extends StaticError {}
/** The relay or the API cannot be reached or did not answer in time. */
export class TransportError extends StaticError {}
/** The request failed because of a channel's name, membership, invite or queue. */
export class ChannelError extends StaticError {}
/** The plan's message limit is reached. */
export class QuotaExceededError extends StaticError {}
/** The request failed because of a channel's cryptographic state. */
export class MlsError extends StaticError {}

const FAMILIES: Record<ErrorRow['family'], typeof StaticError> = {
  AuthError,
  TransportError,
  ChannelError,
  QuotaExceededError,
  MlsError,
  StaticError,
}
