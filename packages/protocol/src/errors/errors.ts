/** The classes that carry the codes of the table: one per family (SPEC.md, "Errors"). */
import { type ErrorCode, type ErrorRow, ERRORS } from './table.ts'

/** What an error can carry beside its code and text. */
export interface ErrorDetails {
  /** What led to it; for logs, never for the peer. */
  readonly cause?: unknown
  /** Seconds after which a new try makes sense. */
  readonly retryAfter?: number
  /** The request's fields that are wrong. */
  readonly errors?: readonly { readonly field: string; readonly message: string }[]
  /** The resource that already exists. */
  readonly resourceId?: string
}

/** The page of an API that explains a code. */
export function docUrlOf(apiUrl: string, code: ErrorCode): string {
  return `${apiUrl}/docs/errors#${code}`
}

/** Base of all errors of Static. */
export class StaticError extends Error {
  readonly code: ErrorCode
  readonly details: ErrorDetails
  #docUrl: string | undefined

  constructor(code: ErrorCode, message?: string, details: ErrorDetails = {}) {
    super(message ?? ERRORS[code].help, details.cause === undefined ? undefined : { cause: details.cause })
    this.name = ERRORS[code].family
    this.code = code
    this.details = details
  }

  /** The HTTP status that belongs to the code. */
  get httpStatus(): number {
    return ERRORS[this.code].status
  }

  /** Whether the same call can succeed later without any change. */
  get retryable(): boolean {
    return ERRORS[this.code].retryable
  }

  /** The page that explains it, where the address of the API is known. */
  get docUrl(): string | undefined {
    return this.#docUrl
  }

  /** Says which API explains it, if one is known; the first word counts. */
  explainAt(apiUrl: string | undefined): void {
    if (apiUrl !== undefined) this.#docUrl ??= docUrlOf(apiUrl, this.code)
  }

  /** Makes an error of the class that belongs to the code. */
  static of(code: ErrorCode, message?: string, details?: ErrorDetails): StaticError {
    return new FAMILIES[ERRORS[code].family](code, message, details)
  }

  /** Passes a StaticError through and wraps anything else as `internal_error`. */
  static from(error: unknown): StaticError {
    if (error instanceof StaticError) return error
    return new StaticError('internal_error', 'Something went wrong inside Static.', { cause: error })
  }
}

/** A missing, wrong or insufficient credential. */
export class AuthError extends StaticError {}
/** The other side cannot be reached or did not answer in time. */
export class TransportError extends StaticError {}
/** A channel's name, membership, invite or queue is in the way. */
export class ChannelError extends StaticError {}
/** The plan's message limit is reached. */
export class QuotaExceededError extends StaticError {}
/** The cryptographic state of a channel is in the way. */
export class MlsError extends StaticError {}

const FAMILIES: Record<ErrorRow['family'], typeof StaticError> = {
  AuthError,
  TransportError,
  ChannelError,
  QuotaExceededError,
  MlsError,
  StaticError,
}
