/** The public entry `@static/sdk/account`: a user's account and files, without the weight of an agent. */
export { apiRefusal, type ApiCall, callApi } from './api-call.ts'
export { isLoopback, parseEndpoint } from './endpoint.ts'
export { type AccountSettings, resolveAccount, userPlaces } from './settings.ts'
export { checkApiKey } from './tokens.ts'
export { readCredentials, writeCredentials } from './user-files.ts'
