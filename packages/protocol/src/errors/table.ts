/**
 * Every error a user of Static can meet, in one table (SPEC.md, "Errors").
 * Callers switch on the code; the text is for people and may change.
 */

/** A stable error code. */
export type ErrorCode =
  | 'auth_failed'
  | 'auth_key_invalid'
  | 'invalid_credentials'
  | 'api_key_required'
  | 'mode_mismatch'
  | 'account_suspended'
  | 'not_allowed'
  | 'transport_error'
  | 'connection_error'
  | 'join_timeout'
  | 'listener_died'
  | 'unavailable'
  | 'rate_limited'
  | 'closed'
  | 'channel_error'
  | 'channel_exists'
  | 'not_found'
  | 'removed'
  | 'group_full'
  | 'too_large'
  | 'queue_full'
  | 'invite_invalid'
  | 'invite_expired'
  | 'invite_used_up'
  | 'invite_revoked'
  | 'identity_changed'
  | 'quota_exceeded'
  | 'mls_error'
  | 'decryption_failure'
  | 'invalid_welcome'
  | 'epoch_mismatch'
  | 'out_of_order'
  | 'fork_detected'
  | 'key_package_unavailable'
  | 'invalid_request'
  | 'invalid_json'
  | 'method_not_allowed'
  | 'body_too_large'
  | 'unsupported_media_type'
  | 'email_taken'
  | 'key_limit_reached'
  | 'idempotency_conflict'
  | 'idempotency_mismatch'
  | 'internal_error'
  | 'store_locked'
  | 'store_key_wrong'
  | 'store_corrupt'
  | 'store_permissions'
  | 'store_rolled_back'

/** One row of the table. */
export interface ErrorRow {
  /** The class that carries this code. */
  readonly family: 'AuthError' | 'TransportError' | 'ChannelError' | 'QuotaExceededError' | 'MlsError' | 'StaticError'
  /** A short name, the same for every occurrence. */
  readonly title: string
  /** The HTTP status of the answer that carries it. */
  readonly status: number
  /** The gRPC status (the canonical number) of the answer that carries it. */
  readonly grpc: number
  /** How the message of the low-level Python client starts. */
  readonly prefix: 'MLS engine error:' | 'transport error:' | 'invalid channel name:' | 'auth error:' | 'runtime error:'
  /** Whether the same call can succeed later without any change. */
  readonly retryable: boolean
  /** What to do about it. */
  readonly help: string
}

/** Canonical gRPC status numbers, by name. */
const GRPC = {
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  internal: 13,
  unavailable: 14,
  dataLoss: 15,
  unauthenticated: 16,
} as const

const auth = (status: number, title: string, help: string, grpc: number = GRPC.unauthenticated): ErrorRow => ({
  family: 'AuthError',
  title,
  status,
  grpc,
  prefix: 'auth error:',
  retryable: false,
  help,
})

const transport = (status: number, title: string, help: string, grpc: number, retryable = true): ErrorRow => ({
  family: 'TransportError',
  title,
  status,
  grpc,
  prefix: 'transport error:',
  retryable,
  help,
})

const channel = (status: number, title: string, help: string, grpc: number, retryable = false): ErrorRow => ({
  family: 'ChannelError',
  title,
  status,
  grpc,
  prefix: 'runtime error:',
  retryable,
  help,
})

const mls = (status: number, title: string, help: string, grpc: number, retryable = false): ErrorRow => ({
  family: 'MlsError',
  title,
  status,
  grpc,
  prefix: 'MLS engine error:',
  retryable,
  help,
})

const other = (status: number, title: string, help: string, grpc: number, retryable = false): ErrorRow => ({
  family: 'StaticError',
  title,
  status,
  grpc,
  prefix: 'runtime error:',
  retryable,
  help,
})

const REJOIN = 'Leave the channel and join again with a new invite token.'

/** Every code with its row. */
export const ERRORS: Readonly<Record<ErrorCode, ErrorRow>> = {
  auth_failed: auth(
    401,
    'Authentication required',
    'Send an API key as `Authorization: Bearer sk_live_…`, or sign in again.',
  ),
  auth_key_invalid: auth(
    401,
    'Invalid credential',
    'Check the key for typing errors; if it was revoked, create a new one.',
  ),
  invalid_credentials: auth(401, 'Wrong e-mail or password', 'Check the e-mail address and the password.'),
  api_key_required: auth(
    403,
    'API key required',
    'Give the client an API key: guests may only use channels that they are members of.',
    GRPC.permissionDenied,
  ),
  mode_mismatch: auth(
    403,
    'Test and live are mixed',
    'Use a live key with live things and a test key with test things.',
    GRPC.permissionDenied,
  ),
  account_suspended: auth(
    403,
    'Account suspended',
    'Ask the operator of the service why the account was suspended.',
    GRPC.permissionDenied,
  ),
  not_allowed: auth(403, 'Not allowed', 'Only the owner of the channel may do this.', GRPC.permissionDenied),

  transport_error: transport(
    502,
    'Transport error',
    'Check the network and the address of the relay; the client tries again by itself.',
    GRPC.unavailable,
  ),
  connection_error: transport(
    502,
    'Cannot connect',
    'Check that the relay runs and that its address and certificate are right.',
    GRPC.unavailable,
  ),
  join_timeout: transport(
    504,
    'Join timed out',
    'The owner of the channel must be running with an API key; then use the same token again.',
    GRPC.deadlineExceeded,
  ),
  listener_died: transport(
    500,
    'Background listener died',
    'Close the channel manager and make a new one.',
    GRPC.unavailable,
    false,
  ),
  unavailable: transport(
    503,
    'Temporarily unavailable',
    'Wait as long as `Retry-After` says, then try again.',
    GRPC.unavailable,
  ),
  rate_limited: transport(
    429,
    'Too many requests',
    'Wait as long as `Retry-After` says, then try again.',
    GRPC.resourceExhausted,
  ),
  closed: transport(409, 'Closed', 'The client or channel was closed; open it again.', GRPC.failedPrecondition, false),

  channel_error: {
    ...channel(
      400,
      'Bad channel name',
      'A name is org/namespace/service, each part 1–63 of a–z, 0–9 and hyphens, no hyphen at either end.',
      GRPC.invalidArgument,
    ),
    prefix: 'invalid channel name:',
  },
  channel_exists: channel(
    409,
    'Channel exists',
    'Choose another name, or open the channel that has it.',
    GRPC.alreadyExists,
  ),
  not_found: channel(
    404,
    'Not found',
    'Check the identifier; it may have been revoked or deleted, or belong to another account.',
    GRPC.notFound,
  ),
  removed: channel(410, 'Removed from the channel', 'Ask the owner for a new invite token.', GRPC.permissionDenied),
  group_full: channel(
    409,
    'Channel full',
    'A channel has at most 250 members: remove one, or make another channel.',
    GRPC.failedPrecondition,
  ),
  too_large: channel(413, 'Message too large', 'Send at most 262,144 bytes in one message.', GRPC.resourceExhausted),
  queue_full: channel(
    429,
    'Channel queue full',
    'Some members have not fetched their messages: wait, or remove them.',
    GRPC.resourceExhausted,
    true,
  ),
  invite_invalid: channel(
    400,
    'Invalid invite token',
    'Check the token for copying errors and that it is for this channel and relay.',
    GRPC.invalidArgument,
  ),
  invite_expired: channel(410, 'Invite expired', 'Ask the owner for a new invite token.', GRPC.failedPrecondition),
  invite_used_up: channel(410, 'Invite used up', 'Ask the owner for a new invite token.', GRPC.failedPrecondition),
  invite_revoked: channel(410, 'Invite revoked', 'Ask the owner for a new invite token.', GRPC.failedPrecondition),
  identity_changed: channel(
    409,
    'Identity has a new key',
    'Compare the fingerprint with its holder, then accept the new key.',
    GRPC.failedPrecondition,
  ),

  quota_exceeded: {
    family: 'QuotaExceededError',
    title: 'Message quota reached',
    status: 429,
    grpc: GRPC.resourceExhausted,
    prefix: 'runtime error:',
    retryable: false,
    help: 'Wait until the period resets (`GET /v1/usage` says when), or change the plan.',
  },

  mls_error: mls(500, 'MLS state broken', REJOIN, GRPC.failedPrecondition),
  decryption_failure: mls(
    500,
    'Cannot decrypt',
    `One message could not be opened; if it happens again: ${REJOIN.toLowerCase()}`,
    GRPC.dataLoss,
  ),
  invalid_welcome: mls(
    400,
    'Invalid Welcome',
    'Ask for a new invite token or Welcome, made for this agent.',
    GRPC.invalidArgument,
  ),
  epoch_mismatch: mls(
    409,
    'Epoch mismatch',
    'The client catches up and tries again by itself; if it persists, leave and rejoin.',
    GRPC.aborted,
    true,
  ),
  out_of_order: mls(
    409,
    'Out of order',
    'The client sends again in order by itself; if it persists, leave and rejoin.',
    GRPC.aborted,
    true,
  ),
  fork_detected: mls(
    409,
    'Fork detected',
    'Members were shown different histories: compare `verify()` before you go on.',
    GRPC.dataLoss,
  ),
  key_package_unavailable: mls(
    404,
    'No KeyPackage',
    'The agent must connect with an API key so that it can upload KeyPackages.',
    GRPC.failedPrecondition,
    true,
  ),

  invalid_request: other(400, 'Invalid request', 'Correct the fields named in `errors`.', GRPC.invalidArgument),
  invalid_json: other(400, 'Invalid JSON', 'Send one JSON object in UTF-8.', GRPC.invalidArgument),
  method_not_allowed: other(
    405,
    'Method not allowed',
    'Use one of the methods in the `Allow` header.',
    GRPC.invalidArgument,
  ),
  body_too_large: other(413, 'Body too large', 'Send at most 16 KiB.', GRPC.resourceExhausted),
  unsupported_media_type: other(
    415,
    'Unsupported media type',
    'Send `Content-Type: application/json`.',
    GRPC.invalidArgument,
  ),
  email_taken: other(409, 'E-mail address taken', 'Sign in, or use another address.', GRPC.alreadyExists),
  key_limit_reached: other(409, 'Too many keys', 'Revoke a key that is no longer used.', GRPC.failedPrecondition),
  idempotency_conflict: other(
    409,
    'Already done',
    'The first request with this Idempotency-Key made the resource named in `resource_id`; its secret cannot be shown again.',
    GRPC.alreadyExists,
  ),
  idempotency_mismatch: other(
    422,
    'Idempotency-Key reused',
    'Use a new Idempotency-Key for a different request.',
    GRPC.invalidArgument,
  ),
  internal_error: other(500, 'Internal error', 'A bug in Static: report it with the request id.', GRPC.internal),

  store_locked: other(
    409,
    'Store in use',
    'Another process uses this data directory: stop it, or choose another directory.',
    GRPC.failedPrecondition,
  ),
  store_key_wrong: other(
    500,
    'Wrong store key',
    'Give the key or passphrase that this data directory was made with.',
    GRPC.failedPrecondition,
  ),
  store_corrupt: other(
    500,
    'Store damaged',
    'Restore a backup or start with a new data directory, then rejoin the channels.',
    GRPC.dataLoss,
  ),
  store_permissions: other(
    500,
    'Store readable by others',
    'Make the directory 0700 and its files 0600.',
    GRPC.failedPrecondition,
  ),
  store_rolled_back: other(500, 'Store is an old copy', `An old copy was put back. ${REJOIN}`, GRPC.dataLoss),
}
