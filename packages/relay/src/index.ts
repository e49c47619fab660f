export type { ApiAccess } from './api-client.ts'
export type { QuotaSource } from './driver.ts'
export type { LogOptions } from './logger.ts'
export {
  type Certificate,
  type LocalApi,
  type OpenStore,
  type RelayOptions,
  type RunningRelay,
  startRelay,
} from './main.ts'
export { type ProxyOptions, type RunningProxy, startProxy } from './proxy/main.ts'
