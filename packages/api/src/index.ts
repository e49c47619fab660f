export { type AccountPage, Admin, type OperatorLink } from './rules/admin.ts'
export { openStore } from './db/store.ts'
export { type Api, type ApiOptions, startApi } from './main.ts'
export { MASTER_KEY_BYTES } from './secrets/seal.ts'
