/** The public entry `@static/sdk/account`: a user's account, files and key slots, without the weight of an agent. */
export { apiRefusal, type ApiCall, callApi } from './api-call.ts'
export { isLocal, isLoopback, parseEndpoint } from './endpoint.ts'
export { type InviteLink, isInviteLink, parseInviteLink } from './invite/link.ts'
export { type AccountSettings, resolveAccount, userPlaces } from './settings.ts'
export { addKeySlot, listKeySlots, removeKeySlot, replaceKeySlot } from './store/keys/slots.ts'
export { readRelayFile } from './store/relay-file.ts'
export { checkApiKey } from './tokens.ts'
export { readCredentials, writeCredentials } from './user-files.ts'
