/** What each error means, for the pages that explain them. What to do about it is in table.ts. */
import type { ErrorCode } from './table.ts'

/** One or two sentences for each code; text between backquotes is code. */
export const ERROR_MEANINGS: Readonly<Record<ErrorCode, string>> = {
  auth_failed: 'The request has no credential, one that is not well formed, or a sign-in session that has ended.',
  auth_key_invalid:
    'The API key or token is unknown, mistyped, expired or revoked, or its account is closed. The answer is the same for all of these.',
  invalid_credentials: 'The e-mail address or the password is wrong. The answer does not tell which.',
  api_key_required: 'The agent is connected as a guest, and only an agent with an account may do this.',
  mode_mismatch:
    'A test key was used for something live, or a live key for something of test mode. The two are kept apart.',
  account_suspended: 'The operator has stopped the account. Nothing of it was deleted.',
  not_allowed: 'The agent is known but may not do this: most often it is for the owner of the channel alone.',

  transport_error: 'The connection to the relay broke, or what came over it was not what the protocol says.',
  connection_error:
    'The relay or the API could not be reached at all: wrong address, nothing listening, or a certificate that is not trusted.',
  join_timeout:
    'Nobody answered the request to join in time. Most often the owner is not running, or runs without an API key.',
  listener_died: 'The part of the channel manager that receives in the background has stopped for good.',
  unavailable:
    'The service cannot answer right now: its database is out of reach, it is starting or stopping, or too much waits.',
  rate_limited: 'There were more requests than the limit named in the text allows in its time.',
  closed: 'The client, manager or channel was closed, by this program or because it ended.',

  channel_error: 'The channel name is not in the form that names have.',
  channel_exists: 'The name is taken by another channel, or this agent holds another channel under it.',
  not_found:
    'There is no such key, account, channel, member or commit for this caller. What belongs to others looks the same as what does not exist.',
  removed: 'This agent is no longer a member of the channel: the owner removed it, or it has left.',
  group_full: 'The channel has as many members as a channel can have.',
  too_large: 'The payload or commit is longer than one message can be.',
  queue_full: 'The relay holds as many unread messages for this channel as it keeps. The text names who lags behind.',
  invite_invalid: 'The token is damaged, not for this channel or relay, or unknown to the relay and the owner.',
  invite_expired: 'The time in which the invite could be used is over.',
  invite_used_up: 'As many agents as the invite allows have joined by it already.',
  invite_revoked: 'The owner has ended the invite, or has removed somebody who joined by it.',
  identity_changed:
    'The identity is known by another key. Either its holder has a new data directory, or somebody else calls itself the same.',

  quota_exceeded:
    'The account of the sender, or for a guest the owner of the channel, has sent as many messages as its plan allows this month.',

  mls_error:
    'The cryptographic state of this channel cannot go on here: it is damaged, or out of step with the other members.',
  decryption_failure: 'A message came that this member cannot open; it was left out.',
  invalid_welcome:
    'The Welcome is damaged, was made for another agent or channel, or was not made by the owner that it names.',
  epoch_mismatch: 'Another member changed the group at the same moment, so this was made for a state that has passed.',
  out_of_order: 'A message arrived at the relay before one that the same agent had sent earlier.',
  fork_detected:
    'A verified message proves that another member was shown a different history of the channel. Sending has stopped here.',
  key_package_unavailable: 'The relay holds no KeyPackage of the agent that is to be added.',

  invalid_request: 'A field, option or setting is missing, unknown or wrong; the text names the first one.',
  invalid_json: 'The body is not JSON, not UTF-8, or has a name twice.',
  method_not_allowed: 'The path exists, but not with this method.',
  body_too_large: 'The body is longer than the API takes.',
  unsupported_media_type: 'The body does not say that it is JSON.',
  email_taken: 'Another account has this e-mail address; upper and lower case do not count.',
  key_limit_reached: 'The account has as many active keys as an account can have.',
  idempotency_conflict: 'This request was made before with the same Idempotency-Key, and has succeeded.',
  idempotency_mismatch: 'This Idempotency-Key was used in the last 24 hours with another request.',
  internal_error:
    'Something happened that should not be possible. The cause is in the log of the server, never in the answer.',

  store_locked: 'One process at a time can use an agent’s data directory, and another one does.',
  store_key_wrong: 'The key or passphrase does not open the agent’s database.',
  store_corrupt: 'The agent’s database or its key file is damaged.',
  store_permissions: 'Others on this machine could read or write the agent’s files, so they are not used.',
  store_rolled_back:
    'The agent’s database is older than what the agent has already done with it; going on would use keys twice.',
}
