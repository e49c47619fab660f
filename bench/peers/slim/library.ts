/** The few functions of SLIM's library that the bench calls. Its packages are not ours, so their types are not here. */
import { pathToFileURL } from 'node:url'
import { LIBRARY } from './install.ts'

/** The name of an app: organisation, namespace, app. */
export interface Name {
  readonly isName: unique symbol
}

/** Made by the library, handed back to it. */
type Opaque = object

/** A message that was sent. */
interface Sent {
  /** Fulfilled when every receiver has acknowledged it. */
  waitAsync(): Promise<void>
}

/** A group of members with a key of its own. */
export interface Session {
  inviteAndWaitAsync(name: Name): Promise<void>
  publishAsync(payload: ArrayBuffer, type: undefined, metadata: undefined): Promise<Sent>
  getMessageAsync(timeoutMs: number): Promise<{ readonly payload: ArrayBuffer }>
}

/** A member or a sender. */
export interface App {
  subscribeAsync(name: Name, connection: bigint): Promise<void>
  setRouteAsync(name: Name, connection: bigint): Promise<void>
  createSessionAndWaitAsync(config: Opaque, destination: Name): Promise<Session>
  listenForSessionAsync(timeoutMs: undefined): Promise<Session>
}

interface ClientConfig {
  readonly tls: { caSource: Opaque }
}

interface Service {
  createAppWithSecret(name: Name, secret: string): App
  connectAsync(config: ClientConfig): Promise<bigint>
  runServerAsync(config: Opaque): Promise<void>
}

/** The library. */
export interface Slim {
  readonly Name: new (organisation: string, namespace: string, app: string) => Name
  readonly SessionType: { readonly Group: number }
  readonly SessionConfig: { create(options: object): Opaque }
  readonly MlsSettings: { create(options: object): Opaque }
  readonly TlsSource: { readonly File: { new: (files: { cert: string; key: string }) => Opaque } }
  readonly CaSource: { readonly File: { new: (file: { path: string }) => Opaque } }
  getVersion(): string
  initializeWithConfigs(runtime: Opaque, tracing: Opaque, services: readonly Opaque[]): void
  newRuntimeConfig(): Opaque
  newTracingConfigWith(level: string, threadNames: boolean, threadIds: boolean, filters: readonly string[]): Opaque
  newServiceConfig(): Opaque
  newSecureClientConfig(endpoint: string): ClientConfig
  newSecureServerConfig(endpoint: string, source: Opaque): Opaque
  getGlobalService(): Service
  createService(name: string): Service
}

/** Loads the library. */
export async function loadSlim(): Promise<Slim> {
  return (await import(pathToFileURL(LIBRARY).href)) as Slim
}

/** Loads the library and starts its runtime, once in a process. */
export async function startSlim(): Promise<Slim> {
  const slim = await loadSlim()
  const tracing = slim.newTracingConfigWith('error', false, false, [])
  slim.initializeWithConfigs(slim.newRuntimeConfig(), tracing, [slim.newServiceConfig()])
  return slim
}
