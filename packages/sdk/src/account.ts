/** The public entry `@static/sdk/account`: a user's account, files and key slots, without the weight of an agent. */
// oxlint-disable-next-line import/no-unassigned-import -- checks this Node before anything else runs
import './platform/node/version.ts'

export type { AnnouncedRelay } from './account/announced-relay.ts'
export { announcedRelay } from './account/announcement.ts'
export { apiRefusal, type ApiCall, callApi } from './account/api-call.ts'
export { isLocal, isLoopback, parseEndpoint } from './account/endpoint.ts'
export { type InviteLink, isInviteLink, parseInviteLink } from './admitting/link.ts'
export { type ClientOption, OPTIONS } from './public/option-table.ts'
export {
  checkAccount,
  checkAccountName,
  namedAccounts,
  namesIn,
  userPlaces,
  type UserPlaces,
} from './account/places.ts'
export { type AccountSettings, resolveAccount } from './public/settings.ts'
export { addKeySlot, checkKeySlot, listKeySlots, removeKeySlot, replaceKeySlot } from './store/keys/slots.ts'
export { readRelayFile, writeRelayFile } from './store/relay-file.ts'
export { checkApiKey } from './account/token-source.ts'
export { type Credentials, readAuthority, readCredentials, writeCredentials } from './account/user-files.ts'
