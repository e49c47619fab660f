/**
 * Every error a user of Static can see, in one table (SPEC.md, "Errors").
 * Programs switch on the code; titles and messages are for people and may change.
 */

/** A stable error code. */
export type ErrorCode =
  | 'auth_failed'
  | 'auth_key_invalid'
  | 'invalid_credentials'
  | 'api_key_required'
  | 'mode_mismatch'
  | 'account_suspended'
  | 'account_unknown'
  | 'signup_closed'
  | 'signup_invite_invalid'
  | 'password_link_invalid'
  | 'not_allowed'
  | 'transport_error'
  | 'connection_error'
  | 'relay_changed'
  | 'version_mismatch'
  | 'join_timeout'
  | 'listener_died'
  | 'unavailable'
  | 'rate_limited'
  | 'cancelled'
  | 'send_pending'
  | 'closed'
  | 'channel_error'
  | 'channel_exists'
  | 'not_found'
  | 'removed'
  | 'group_full'
  | 'ask_timeout'
  | 'ask_failed'
  | 'too_large'
  | 'queue_full'
  | 'files_unavailable'
  | 'file_incomplete'
  | 'file_expired'
  | 'file_changed'
  | 'file_corrupt'
  | 'invite_invalid'
  | 'invite_expired'
  | 'invite_used_up'
  | 'invite_revoked'
  | 'proof_required'
  | 'identity_changed'
  | 'relay_rolled_back'
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
  | 'schema_mismatch'
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
  | 'store_failed'

export interface ErrorRow {
  /** The class that carries this code. */
  readonly family: 'AuthError' | 'TransportError' | 'ChannelError' | 'QuotaExceededError' | 'MlsError' | 'StaticError'
  /** A short name, the same for every occurrence. */
  readonly title: string
  /** The HTTP status of the response. */
  readonly status: number
  /** The canonical gRPC status number of the response. */
  readonly grpc: number
  /** The start of the message in the low-level Python client. */
  readonly prefix: 'MLS engine error:' | 'transport error:' | 'invalid channel name:' | 'auth error:' | 'runtime error:'
  /** Whether retrying the same call unchanged can succeed. */
  readonly retryable: boolean
  /** The default message: the problem, then the remedy. */
  readonly help: string
  /** The remedy: the second part of `help`. */
  readonly remedy: string
}

/** Canonical gRPC status numbers, by name. */
const GRPC = {
  cancelled: 1,
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

/** The problem, and the remedy. */
type Text = readonly [problem: string, remedy: string]

type Rest = Omit<ErrorRow, 'title' | 'status' | 'grpc' | 'help' | 'remedy'>

function row(rest: Rest, status: number, title: string, [problem, remedy]: Text, grpc: number): ErrorRow {
  return { ...rest, title, status, grpc, help: `${problem} ${remedy}`, remedy }
}

const auth = (status: number, title: string, text: Text, grpc: number = GRPC.unauthenticated): ErrorRow =>
  row({ family: 'AuthError', prefix: 'auth error:', retryable: false }, status, title, text, grpc)

const transport = (status: number, title: string, text: Text, grpc: number, retryable = true): ErrorRow =>
  row({ family: 'TransportError', prefix: 'transport error:', retryable }, status, title, text, grpc)

const channel = (status: number, title: string, text: Text, grpc: number, retryable = false): ErrorRow =>
  row({ family: 'ChannelError', prefix: 'runtime error:', retryable }, status, title, text, grpc)

const mls = (status: number, title: string, text: Text, grpc: number, retryable = false): ErrorRow =>
  row({ family: 'MlsError', prefix: 'MLS engine error:', retryable }, status, title, text, grpc)

const other = (status: number, title: string, text: Text, grpc: number, retryable = false): ErrorRow =>
  row({ family: 'StaticError', prefix: 'runtime error:', retryable }, status, title, text, grpc)

const REJOIN =
  'Leave the channel and join again with a new invite token; an owner deletes the channel and creates it again.'
const RETRY_AFTER = 'Wait for the time in `Retry-After`, then retry.'
const NEW_INVITE = 'Ask the owner for a new invite token.'

/** Every code with its row. */
export const ERRORS: Readonly<Record<ErrorCode, ErrorRow>> = {
  auth_failed: auth(401, 'Authentication required', [
    'The request has no valid credential.',
    'Send an API key as `Authorization: Bearer sk_live_…`, or sign in again.',
  ]),
  auth_key_invalid: auth(401, 'Invalid credential', [
    'The API key or token is not valid.',
    'Check the key for typos; if it was revoked, create a new one.',
  ]),
  invalid_credentials: auth(401, 'Wrong e-mail or password', [
    'The e-mail address or the password is wrong.',
    'Check the e-mail address and the password.',
  ]),
  api_key_required: auth(
    403,
    'API key required',
    [
      'This requires an API key, and the agent is connected as a guest.',
      'Give the client an API key: guests can only use channels they are members of.',
    ],
    GRPC.permissionDenied,
  ),
  mode_mismatch: auth(
    403,
    'Test and live mode mixed',
    ['The mode of the key does not match.', 'Use a live key for live resources and a test key for test resources.'],
    GRPC.permissionDenied,
  ),
  account_suspended: auth(
    403,
    'Account suspended',
    ['The account is suspended.', 'Ask the operator of the service why it was suspended.'],
    GRPC.permissionDenied,
  ),
  account_unknown: auth(
    403,
    'Account unknown',
    [
      'The server has no such account.',
      'Sign up again; if the operator has restored a backup, ask them to restore the account.',
    ],
    GRPC.permissionDenied,
  ),
  signup_closed: auth(
    403,
    'Sign-up closed',
    ['Sign-up is closed on this server.', 'Ask its operator to create an account for you.'],
    GRPC.permissionDenied,
  ),
  signup_invite_invalid: auth(
    403,
    'Sign-up invite required',
    ['Signing up on this server requires a valid sign-up invite.', 'Ask its operator for a new one.'],
    GRPC.permissionDenied,
  ),
  password_link_invalid: auth(
    403,
    'Invalid set-password link',
    ['The set-password link is not valid.', 'Ask the operator of this server for a new one.'],
    GRPC.permissionDenied,
  ),
  not_allowed: auth(
    403,
    'Not allowed',
    ['This agent is not allowed to do this.', 'Ask the owner of the channel to do it.'],
    GRPC.permissionDenied,
  ),

  transport_error: transport(
    502,
    'Transport error',
    [
      'The connection to the relay failed.',
      'Check the network and the address of the relay; the client retries automatically.',
    ],
    GRPC.unavailable,
  ),
  connection_error: transport(
    502,
    'Cannot connect',
    [
      'The relay or the API cannot be reached.',
      'Check that it is running and that its address and certificate are right.',
    ],
    GRPC.unavailable,
  ),
  relay_changed: transport(
    502,
    'Relay changed',
    [
      'The relay that answers is not the one this agent knows.',
      'Ask the operator whether the relay was set up again and compare its id; if so, accept it with ' +
        '`static agent accept-relay` or the option `acceptRelay`.',
    ],
    GRPC.failedPrecondition,
    false,
  ),
  version_mismatch: transport(
    426,
    'Version mismatch',
    [
      'Agent, proxy and relay have no protocol revision in common.',
      'Update the one that the message names; until then, a retry fails in the same way.',
    ],
    GRPC.failedPrecondition,
    false,
  ),
  join_timeout: transport(
    504,
    'Join timed out',
    [
      'No agent that can admit joiners answered the join request in time.',
      'Check that the owner is running with an API key, or, if the invite lets members admit, any member with an account; ' +
        'then use the same token again.',
    ],
    GRPC.deadlineExceeded,
  ),
  listener_died: transport(
    500,
    'Background listener died',
    ['The background listener has stopped.', 'Close the client or channel manager and create a new one.'],
    GRPC.unavailable,
    false,
  ),
  unavailable: transport(
    503,
    'Temporarily unavailable',
    ['The service is temporarily unavailable.', RETRY_AFTER],
    GRPC.unavailable,
  ),
  rate_limited: transport(429, 'Too many requests', ['Too many requests.', RETRY_AFTER], GRPC.resourceExhausted),
  cancelled: transport(
    408,
    'Cancelled',
    ['The call was cancelled, by its timeout or signal, before anything was sent.', 'Try again.'],
    GRPC.cancelled,
  ),
  send_pending: transport(
    504,
    'Message may still arrive',
    [
      'The call ended before the relay had stored the message, which is still being sent.',
      'Do not send it again: it could arrive twice.',
    ],
    GRPC.deadlineExceeded,
    false,
  ),
  closed: transport(
    409,
    'Closed',
    ['The client, manager or channel is closed.', 'Open it again.'],
    GRPC.failedPrecondition,
    false,
  ),

  channel_error: {
    ...channel(
      400,
      'Invalid channel name',
      [
        'The channel name is not valid.',
        'Use org/namespace/service, each part 1–63 of a–z, 0–9 and hyphens, with no hyphen at either end.',
      ],
      GRPC.invalidArgument,
    ),
    prefix: 'invalid channel name:',
  },
  channel_exists: channel(
    409,
    'Channel already exists',
    [
      'A channel with this name already exists.',
      'Choose another name, or ask the owner of that channel for an invite. If this agent is a member, open it with `client.channel(name)`.',
    ],
    GRPC.alreadyExists,
  ),
  not_found: channel(
    404,
    'Not found',
    [
      'Not found.',
      'Check the identifier: the resource may have been revoked or deleted, or belong to another account.',
    ],
    GRPC.notFound,
  ),
  removed: channel(
    410,
    'Removed from the channel',
    ['This agent is no longer a member of the channel.', NEW_INVITE],
    GRPC.permissionDenied,
  ),
  ask_timeout: channel(
    504,
    'No answer in time',
    [
      'The member asked did not answer in time. It may still have carried out the request.',
      'Ask again only if that is safe, or with a longer timeout.',
    ],
    GRPC.deadlineExceeded,
  ),
  ask_failed: channel(
    502,
    'Answered with an error',
    ['The member asked answered with an error.', 'The error’s code and text give the reason.'],
    GRPC.failedPrecondition,
  ),
  group_full: channel(
    409,
    'Channel full',
    ['The channel has 250 members, the maximum.', 'Remove a member, or create another channel.'],
    GRPC.failedPrecondition,
  ),
  too_large: channel(
    413,
    'Message too large',
    ['The message is too large.', 'Send at most 262,144 bytes in one message.'],
    GRPC.resourceExhausted,
  ),
  queue_full: channel(
    429,
    'Channel queue full',
    [
      'The queue of the channel is full, because some members have not fetched their messages.',
      'Wait and retry, or remove those members.',
    ],
    GRPC.resourceExhausted,
    true,
  ),
  files_unavailable: channel(
    503,
    'Files not available',
    [
      'This relay does not take files.',
      'Ask its operator to give it a place for files, or send what fits into messages.',
    ],
    GRPC.failedPrecondition,
  ),
  file_incomplete: channel(
    409,
    'File incomplete',
    ['The relay does not have all parts of the file.', 'Send the missing parts, then the message.'],
    GRPC.failedPrecondition,
  ),
  file_expired: channel(
    410,
    'File expired',
    ['The relay no longer has the file.', 'Ask its sender to send it again.'],
    GRPC.notFound,
  ),
  file_changed: channel(
    409,
    'File changed',
    [
      'The file has changed while it was being sent.',
      'Send it again once nothing writes to it; nothing of it has reached the channel.',
    ],
    GRPC.aborted,
  ),
  file_corrupt: channel(
    422,
    'File corrupt',
    ['A part of the file is not what its sender has signed.', 'Ask its sender to send it again.'],
    GRPC.dataLoss,
  ),
  invite_invalid: channel(
    400,
    'Invalid invite token',
    ['The invite token is not valid.', 'Check that the token was copied completely and is for this channel and relay.'],
    GRPC.invalidArgument,
  ),
  invite_expired: channel(
    410,
    'Invite expired',
    ['The invite token has expired.', NEW_INVITE],
    GRPC.failedPrecondition,
  ),
  invite_used_up: channel(
    410,
    'Invite used up',
    ['The invite token has no uses left.', NEW_INVITE],
    GRPC.failedPrecondition,
  ),
  invite_revoked: channel(
    410,
    'Invite revoked',
    ['The invite token was revoked.', NEW_INVITE],
    GRPC.failedPrecondition,
  ),
  proof_required: channel(
    403,
    'Proof required',
    [
      'The owner of the channel admits only agents that show a proof which it accepts.',
      'Show one (option `show`, or `static channel join --show`), or ask the owner which proofs it accepts.',
    ],
    GRPC.failedPrecondition,
  ),
  identity_changed: channel(
    409,
    'Identity has a new key',
    [
      'This identity is known with a different key.',
      'Confirm the new agent id with the identity’s holder, then accept the new key. To join a channel, ask its owner to do so.',
    ],
    GRPC.failedPrecondition,
  ),
  relay_rolled_back: channel(
    409,
    'Relay restored from an old backup',
    [
      'The relay has lost part of this channel’s log that this agent has read or sent. This happens after an old backup is restored.',
      'Leave the channel and join again with a new invite token; the owner deletes the channel and creates it again.',
    ],
    GRPC.dataLoss,
  ),

  quota_exceeded: row(
    { family: 'QuotaExceededError', prefix: 'runtime error:', retryable: false },
    429,
    'Message quota reached',
    [
      'The message quota of the plan is used up for this month.',
      'Wait until the quota resets (`GET /v1/usage` says when), or change the plan.',
    ],
    GRPC.resourceExhausted,
  ),

  mls_error: mls(
    500,
    'MLS state broken',
    ['The MLS state of this channel is damaged or out of step with the other members.', REJOIN],
    GRPC.failedPrecondition,
  ),
  decryption_failure: mls(
    500,
    'Cannot decrypt',
    [
      'A message could not be decrypted and was skipped.',
      'If it happens again, leave the channel and join again with a new invite token.',
    ],
    GRPC.dataLoss,
  ),
  invalid_welcome: mls(
    400,
    'Invalid Welcome',
    [
      'The Welcome is not valid for this agent and channel.',
      'Ask for a new invite token or Welcome, made for this agent.',
    ],
    GRPC.invalidArgument,
  ),
  epoch_mismatch: mls(
    409,
    'Epoch mismatch',
    [
      'Another member changed the group at the same time.',
      'The client catches up and retries automatically; if this persists, leave and rejoin.',
    ],
    GRPC.aborted,
    true,
  ),
  out_of_order: mls(
    409,
    'Out of order',
    [
      'A message reached the relay before an earlier one from the same agent.',
      'The client resends in order automatically; if this persists, leave and rejoin.',
    ],
    GRPC.aborted,
    true,
  ),
  fork_detected: mls(
    409,
    'Fork detected',
    ['Members were shown different histories of this channel.', 'Compare `verify()` before you continue.'],
    GRPC.dataLoss,
  ),
  key_package_unavailable: mls(
    404,
    'No KeyPackage',
    [
      'The relay has no KeyPackage for the agent.',
      'The agent must connect with an API key so that it can upload KeyPackages.',
    ],
    GRPC.failedPrecondition,
    true,
  ),

  invalid_request: other(
    400,
    'Invalid request',
    ['The request is not valid.', 'Correct the fields listed in `errors`.'],
    GRPC.invalidArgument,
  ),
  schema_mismatch: other(
    422,
    'Does not fit the schema',
    ['The value does not fit the schema.', 'Correct the fields that the message names.'],
    GRPC.invalidArgument,
  ),
  invalid_json: other(
    400,
    'Invalid JSON',
    ['The body is not valid JSON.', 'Send one JSON object in UTF-8.'],
    GRPC.invalidArgument,
  ),
  method_not_allowed: other(
    405,
    'Method not allowed',
    ['Method not allowed.', 'Use one of the methods in the `Allow` header.'],
    GRPC.invalidArgument,
  ),
  body_too_large: other(
    413,
    'Body too large',
    ['The request body is too large.', 'Send at most 16 KiB.'],
    GRPC.resourceExhausted,
  ),
  unsupported_media_type: other(
    415,
    'Unsupported media type',
    ['The body is not declared as JSON.', 'Send `Content-Type: application/json`.'],
    GRPC.invalidArgument,
  ),
  email_taken: other(
    409,
    'E-mail address taken',
    ['An account with this e-mail address already exists.', 'Sign in, or use another address.'],
    GRPC.alreadyExists,
  ),
  key_limit_reached: other(
    409,
    'Too many keys',
    ['The account has the maximum number of active keys.', 'Revoke a key that you no longer use.'],
    GRPC.failedPrecondition,
  ),
  idempotency_conflict: other(
    409,
    'Request already succeeded',
    [
      'A request with this Idempotency-Key has already succeeded.',
      'Use the resource it created, named in `resource_id`; its secret cannot be shown again.',
    ],
    GRPC.alreadyExists,
  ),
  idempotency_mismatch: other(
    422,
    'Idempotency-Key reused',
    ['This Idempotency-Key was already used for a different request.', 'Use a new Idempotency-Key.'],
    GRPC.invalidArgument,
  ),
  internal_error: other(
    500,
    'Internal error',
    ['Static failed because of a bug.', 'Report it with the request id.'],
    GRPC.internal,
  ),

  store_locked: other(
    409,
    'Store in use',
    ['Another process is using this data directory.', 'Stop that process, or choose another directory.'],
    GRPC.failedPrecondition,
  ),
  store_key_wrong: other(
    500,
    'Wrong store key',
    [
      'The key or passphrase does not open this data directory.',
      'Use the key or passphrase of one of its key slots (`static agent slots list`).',
    ],
    GRPC.failedPrecondition,
  ),
  store_corrupt: other(
    500,
    'Store damaged',
    [
      'The agent’s data directory, or a row in the API’s database, is damaged.',
      'Agent: start with a new data directory and join the channels again; do not restore an old copy. API: contact its operator.',
    ],
    GRPC.dataLoss,
  ),
  store_permissions: other(
    500,
    'Store accessible to other users',
    ['Other users can read or write the files of the agent.', 'Make the directory 0700 and its files 0600.'],
    GRPC.failedPrecondition,
  ),
  store_rolled_back: other(
    500,
    'Store rolled back',
    [
      'The data directory was replaced by an older copy.',
      'If the agent does not start, put its current files back or use a new data directory. If it starts, leave the channel and join again with a new invite token.',
    ],
    GRPC.dataLoss,
  ),
  store_failed: other(
    500,
    'Store not writable',
    [
      'The files of the agent cannot be read or written.',
      'Check the disk and free some space, then restart the agent.',
    ],
    GRPC.unavailable,
  ),
}
