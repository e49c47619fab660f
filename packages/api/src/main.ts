/** Starts the API: opens the database, listens, and stops in order. The only file here that opens sockets. */
import { type Logger, type LogOptions, makeLog } from '@static/node/logger'
import { StaticError } from '@static/protocol'
import { openStore } from './db/store.ts'
import type { App } from './http/app.ts'
import { type BuiltPage, readBuiltPage } from './http/built-page.ts'
import { isLoopbackName } from './http/headers.ts'
import type { Certificate } from './http/listener.ts'
import { useMetrics } from './http/metrics.ts'
import { makeWebServer, type WebServer } from './http/server.ts'
import type { Clock } from './ports.ts'
import { accountRoutes } from './routes/accounts.ts'
import { consoleRoutes } from './routes/console.ts'
import { docsRoutes } from './routes/docs.ts'
import { healthRoutes } from './routes/health.ts'
import { keyRoutes } from './routes/keys.ts'
import { leaseRoutes } from './routes/leases.ts'
import { metricsRoutes } from './routes/metrics.ts'
import { sessionRoutes } from './routes/sessions.ts'
import { tokenRoutes } from './routes/tokens.ts'
import { usageRoutes } from './routes/usage.ts'
import { openService, type Service } from './service.ts'
import { type Settings, settingsFrom } from './settings.ts'

/** How to run the API. */
export interface ApiOptions {
  /** A SQLite file, or `postgres://…`. */
  readonly database: string
  /** 32 bytes that open the sealed signing keys. */
  readonly masterKey: Uint8Array
  /** Where to listen; port 0 takes a free one. */
  readonly host: string
  readonly port: number
  /** The name, and port if it differs, that users see; the host by default. */
  readonly name?: string | undefined
  /** Without one the API speaks plain HTTP, on loopback only. */
  readonly certificate?: Certificate | undefined
  /** The listener for relay nodes. */
  readonly internal?: { readonly host: string; readonly port: number; readonly credential: string } | undefined
  /** Lets others than this machine read /metrics. */
  readonly metricsToken?: string | undefined
  /** Proxies whose word on the client's address is believed. */
  readonly trustedProxies?: readonly string[] | undefined
  /** The directory of the built console, served at /console. */
  readonly console?: string | undefined
  /** Whether the relay works, told at /health/ready; for an API that knows of one. */
  readonly relayIsReady?: (() => boolean) | undefined
  /** Overrides of the defaults; see `Settings`. */
  readonly settings?: unknown
  readonly log: LogOptions
  readonly now?: Clock | undefined
}

/** A running API. */
export interface Api {
  /** The address that users see. */
  readonly url: string
  readonly internalUrl: string | undefined
  readonly service: Service
  /** Takes a new certificate for connections from now on. */
  renew(certificate: Certificate): void
  /** Lets requests under way finish, writes what waits, and closes everything. */
  close(): Promise<void>
}

/**
 * Starts the API.
 * Throws `invalid_request` for options that cannot work, `unavailable` if the database is out of reach,
 * and `connection_error` if an address is taken.
 */
export async function startApi(options: ApiOptions): Promise<Api> {
  const settings: Settings = settingsFrom(options.settings ?? {})
  const hosts = [options.host, ...(options.internal ? [options.internal.host] : [])]
  if (!options.certificate && !hosts.every(isLoopbackName)) {
    throw StaticError.of('invalid_request', 'Plain HTTP is for loopback only: give a certificate and its key.')
  }
  const log = makeLog(options.log)
  if (!options.certificate) log.warn('plain HTTP, for development on this machine only')
  const page = options.console === undefined ? undefined : await readBuiltPage(options.console)
  if (options.console !== undefined && !page) log.warn('the console was not built, so there is no page at /console')
  const service = await openRules(options, settings, log)
  const servers: WebServer[] = []
  const close = async (): Promise<void> => {
    // A request that does not end in time must not keep the process for ever.
    const late = setTimeout(() => {
      for (const server of servers) server.destroyConnections()
    }, settings.http.shutdownSeconds * 1000)
    try {
      await Promise.all(servers.map(({ app }) => app.close()))
    } finally {
      clearTimeout(late)
      await service.close()
    }
  }
  try {
    const addresses = await listenAll({ options, service, log, page }, servers)
    const renew = (fresh: Certificate): void => {
      for (const server of servers) server.renew(fresh)
    }
    return { ...addresses, service, renew, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Opens the database and puts the rules over it. */
async function openRules(options: ApiOptions, settings: Settings, log: Logger): Promise<Service> {
  const store = await openStore(options.database)
  const onError = (err: unknown): void => log.error({ err }, 'background work failed; it will be tried again')
  try {
    const { masterKey, now = Date.now } = options
    return await openService({ store, masterKey, settings, now, onError })
  } catch (error) {
    await store.close()
    throw error
  }
}

/** What the servers are made of. */
interface Parts {
  readonly options: ApiOptions
  readonly service: Service
  readonly log: Logger
  readonly page: BuiltPage | undefined
}

/** Makes the public server, and that for relay nodes if it is wanted, and listens. Each is in `servers` once it exists. */
async function listenAll(parts: Parts, servers: WebServer[]): Promise<Pick<Api, 'url' | 'internalUrl'>> {
  const { options, service, log } = parts
  const { certificate, trustedProxies = [], internal } = options
  const scheme = certificate ? 'https' : 'http'
  let url = ''
  const name = new URL(publicUrl(scheme, options.name ?? options.host, options.port)).hostname
  const common = { service, log, certificate, name, url: (): string => url }
  const main = await makeWebServer({ ...common, trustedProxies }, (app) => addPublicRoutes(app, parts, () => url))
  servers.push(main)
  url = publicUrl(scheme, options.name ?? options.host, await listen(main, options.host, options.port))
  if (!internal) return { url, internalUrl: undefined }
  const inner = await makeWebServer({ ...common, trustedProxies: [] }, (app) =>
    leaseRoutes(app, service, internal.credential),
  )
  servers.push(inner)
  return { url, internalUrl: publicUrl(scheme, internal.host, await listen(inner, internal.host, internal.port)) }
}

function addPublicRoutes(app: App, { options, service, page }: Parts, origin: () => string): void {
  const registry = useMetrics(app, service)
  accountRoutes(app, service, origin)
  keyRoutes(app, service, origin)
  sessionRoutes(app, service, origin)
  tokenRoutes(app, service)
  usageRoutes(app, service, origin)
  healthRoutes(app, service, options.relayIsReady)
  docsRoutes(app)
  if (page) consoleRoutes(app, page)
  metricsRoutes(app, registry, options.metricsToken, (options.trustedProxies ?? []).length === 0)
}

async function listen(server: WebServer, host: string, port: number): Promise<number> {
  try {
    return await server.listen(host, port)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const reason = code === 'EADDRINUSE' ? 'it is taken by another program' : (code ?? 'unknown error')
    throw StaticError.of('connection_error', `Cannot listen on ${host} port ${port}: ${reason}.`, { cause })
  }
}

/** A name may carry the port that users see, where a proxy stands in front. */
function publicUrl(scheme: 'http' | 'https', name: string, port: number): string {
  const host = name.includes(':') && !/:\d+$/.test(name) ? `[${name}]` : name
  const hasPort = /:\d+$/.test(host)
  return new URL(`${scheme}://${hasPort ? host : `${host}:${port}`}`).origin
}
