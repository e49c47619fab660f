/** The meaning of each error, for the pages that explain them. The remedies are in table.ts. */
import type { ErrorCode } from './table.ts'

/** One or two sentences for each code; text between backquotes is code. */
export const ERROR_MEANINGS: Readonly<Record<ErrorCode, string>> = {
  auth_failed: 'The request has no credential, a malformed one, or a sign-in session that has ended.',
  auth_key_invalid:
    'The API key or token is unknown, mistyped, expired or revoked, or its account is closed. The response is the same in all of these cases.',
  invalid_credentials: 'The e-mail address or the password is wrong. The response does not reveal which.',
  api_key_required: 'The agent is connected as a guest, but this requires an agent with an account.',
  mode_mismatch:
    'A test key was used for a live resource, or a live key for a test resource. The two modes are kept apart.',
  account_suspended: 'The operator has suspended the account. None of its data was deleted.',
  account_unknown:
    'The account that the agent, or the owner of its channel, acts for was closed, or is not in the database of the API: the operator may have restored a backup from before the account was created.',
  signup_closed: 'Only the operator of this server creates accounts (`static admin accounts create`).',
  signup_invite_invalid:
    'The sign-up has no invite, or one that is unknown, mistyped, expired or already used. The response is the same in all of these cases. The operator creates invites with `static admin accounts invite`; each creates one account.',
  password_link_invalid:
    'The link is unknown, mistyped, expired, already used, replaced by a newer one, or its account is closed. The response is the same in all of these cases.',
  not_allowed: 'The agent is authenticated but may not do this. Usually only the owner of the channel may.',

  transport_error: 'The connection to the relay broke, or the data received did not follow the protocol.',
  connection_error:
    'The relay or the API could not be reached: wrong address, nothing listening there, or an untrusted certificate.',
  relay_changed:
    'The relay answering under this name has a different id than in earlier sessions. Either the operator set the relay up again with a new database, and all channels on the old one are lost, or someone with a certificate for this name put another relay in its place. Nothing was sent to it.',
  version_mismatch: 'The relay, the agent or a proxy between them runs a version that the others no longer support.',
  join_timeout:
    'The join request was not answered in time. Usually the owner is not running, or runs without an API key. With an invite that lets members admit, no member with an account is running.',
  listener_died:
    'The background part of the client, which answers join requests, has stopped. In Python, the driver process may have ended instead.',
  unavailable:
    'The service cannot respond right now: its database is unreachable, it is starting or stopping, or its queue is full.',
  rate_limited: 'More requests were made than the limit in the message allows.',
  cancelled: 'A timeout or an AbortSignal ended the call before the message was encrypted. It will not be sent.',
  send_pending:
    'A timeout or an AbortSignal ended the call after the message was stored for sending. It is sent as soon as the relay accepts it, if necessary at the next start.',
  closed: 'The client, manager or channel was closed, either by this program or because it ended.',

  channel_error: 'The channel name does not have the required form.',
  channel_exists: 'Another channel has this name, or this agent is a member of another channel with this name.',
  not_found:
    'No such key, account, channel, member or commit is visible to this caller. Another account’s resource looks the same as one that does not exist.',
  removed: 'This agent is no longer a member of the channel: the owner removed it, or it left.',
  ask_timeout:
    'A request to a member (`channel.ask`) was not fully answered before its timeout. The member may be offline, slow, or not serving requests.',
  ask_failed:
    'The handler of the asked member threw an error, or it ended without an answer (`askOne`). `details.answer` has the code and text that it sent.',
  group_full: 'The channel has the maximum number of members.',
  too_large: 'The payload or commit is larger than one message can be.',
  queue_full:
    'The relay holds as many unread messages for this channel, or for all channels of the owner’s account, as the plan allows. The message names the members that lag behind.',
  files_unavailable:
    'The relay has no place for files, has less than a tenth of its disk free, or cannot be reached at its port of files.',
  file_incomplete:
    'A message names a file of which parts are missing at the relay, for example because its upload was started again.',
  file_expired:
    'The file is unknown to the relay: it was kept for its time, deleted by its sender or the owner of the channel, saved or dropped by all that may fetch it, never sent, or not in the backup that the operator restored.',
  file_changed:
    'After a crash the agent reads the file again to complete the upload, and found other bytes than before.',
  file_corrupt:
    'A part was wrong twice: the relay, or a member together with it, has replaced or damaged it. Nothing of that part was released.',
  invite_invalid: 'The token is damaged, is for another channel or relay, or is unknown to the relay or the owner.',
  invite_expired: 'The invite was used after its expiry time.',
  invite_used_up: 'The maximum number of agents has already joined with this invite.',
  proof_required:
    'The channel’s owner admits only agents whose issuer it trusts, such as a company’s domain or GitHub Actions.',
  invite_revoked: 'The owner revoked the invite, or removed an agent that joined with it.',
  identity_changed:
    'An agent with this identity but a different key was added before, or is a member. Either the agent has a new data directory, or someone else is using the same identity. `Channel.acceptNewKey` (`static channel accept-new-key`) accepts the new key, for invites as well; a member that has the identity must be removed first.',
  relay_rolled_back:
    'The relay’s log of this channel ends before, or differs from, what this agent has read or sent. Most likely the operator restored a backup of the relay; a relay that hides entries looks the same. Messages that the agent has received stay readable.',

  quota_exceeded:
    'The account has sent all messages that its plan allows this month. A guest’s messages count against the owner of the channel.',

  mls_error:
    'The cryptographic state of this channel can no longer be used here: it is damaged, or out of step with the other members.',
  decryption_failure: 'This member received a message that it cannot decrypt, and skipped it.',
  invalid_welcome: 'The Welcome is damaged, is for another agent or channel, or was not created by the owner it names.',
  epoch_mismatch: 'Another member changed the group at the same time, so this request was made for an outdated state.',
  out_of_order: 'A message reached the relay before an earlier one from the same agent.',
  fork_detected:
    'A verified message proves that another member was shown a different history of the channel. Sending has stopped here.',
  key_package_unavailable: 'The relay has no KeyPackage for the agent to be added.',

  invalid_request: 'A field, option or setting is missing, unknown or wrong. The message names the first one.',
  schema_mismatch:
    'A value that was sent, received or answered as JSON does not fit the option `schema` of the call. `handle` puts such a message aside at once; `serve` answers such a request with this error.',
  invalid_json: 'The body is not JSON, is not UTF-8, or repeats a name.',
  method_not_allowed: 'The path exists but does not support this method.',
  body_too_large: 'The body is larger than the API accepts.',
  unsupported_media_type: 'The body is not declared as JSON.',
  email_taken: 'Another account has this e-mail address. Addresses that differ only in case are the same.',
  key_limit_reached: 'The account has the maximum number of active keys.',
  idempotency_conflict: 'The same request has already succeeded with this Idempotency-Key.',
  idempotency_mismatch: 'This Idempotency-Key was used for a different request in the last 24 hours.',
  internal_error: 'An unexpected error occurred. Its cause is in the log of the server, never in the response.',

  store_locked: 'Only one process at a time can use an agent’s data directory, and another one is using it.',
  store_key_wrong: 'The key or passphrase does not open the agent’s database.',
  store_corrupt:
    'The agent’s database or its key file is damaged, or the data that the API stored for the request is damaged.',
  store_permissions: 'Other users of this machine could read or write the agent’s files, so they are not used.',
  store_rolled_back: 'The agent’s database is an old copy from before its last use. Continuing would use keys twice.',
  store_failed:
    'The disk with the agent’s data directory is full, broken or read-only, or the directory is gone. The agent has stopped, because it must not send or acknowledge anything that is not on disk.',
}
