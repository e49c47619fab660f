/** Starts the API: opens the database, listens, and shuts down in order. The only file here that opens sockets. */
import { X509Certificate } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { Balancers } from '@static/node/balancers'
import { listenError } from '@static/node/listen-error'
import { type Logger, type LogOptions, makeLog } from '@static/node/logger'
import { RepeatLog } from '@static/node/repeat-log'
import { type ServerAnnouncement, type SignupMode, StaticError } from '@static/protocol'
import { isDamage } from './db/checksums.ts'
import { openStore } from './db/store.ts'
import type { App } from './http/app.ts'
import { type BuiltPage, readBuiltPage } from './http/built-page.ts'
import { isLoopbackName } from './http/headers.ts'
import type { Certificate } from './http/listener.ts'
import { useMetrics } from './http/metrics.ts'
import { makeWebServer, type WebServer } from './http/server.ts'
import type { Clock } from './ports.ts'
import { DamageLog } from './rules/damage.ts'
import { accountRoutes } from './routes/accounts.ts'
import { announcementRoutes } from './routes/announcement.ts'
import { auditRoutes } from './routes/audit.ts'
import { consoleRoutes } from './routes/console.ts'
import { deletionReportRoutes, deletionRoutes } from './routes/deletions.ts'
import { docsRoutes } from './routes/docs.ts'
import { healthRoutes } from './routes/health.ts'
import { keyRoutes } from './routes/keys.ts'
import { leaseRoutes } from './routes/leases.ts'
import { metricsRoutes } from './routes/metrics.ts'
import { operatorLinkRoutes } from './routes/operator-links.ts'
import { overviewReportRoutes, overviewRoutes } from './routes/overviews.ts'
import { sessionRoutes } from './routes/sessions.ts'
import { tokenRoutes } from './routes/tokens.ts'
import { usageRoutes } from './routes/usage.ts'
import { openService, type Service } from './service.ts'
import { type Settings, settingsFrom } from './settings.ts'

export interface ApiOptions {
  /** A SQLite file, or `postgres://…`. */
  readonly database: string
  /** 32 bytes that unseal the signing keys. */
  readonly masterKey: Uint8Array
  /** Where to listen; port 0 picks a free one. */
  readonly host: string
  readonly port: number
  /** The public host name, with the port if it differs; `host` by default. */
  readonly name?: string | undefined
  /** Without one, the API serves plain HTTP, on loopback only. */
  readonly certificate?: Certificate | undefined
  /** For clients that name the host in the TLS handshake; by default the same. */
  readonly namedCertificate?: Certificate | undefined
  /** The listener for relay nodes, and the credentials that it accepts: two while they are being rotated. */
  readonly internal?:
    | { readonly host: string; readonly port: number; readonly credentials: readonly string[] }
    | undefined
  /** A token that lets other machines read /metrics. */
  readonly metricsToken?: string | undefined
  /** Proxies whose `X-Forwarded-For` header is trusted for the client's address. */
  readonly trustedProxies?: readonly string[] | undefined
  /**
   * Load balancers (addresses, networks) that must announce their clients on the public port, by the PROXY protocol.
   */
  readonly proxyProtocolFrom?: readonly string[] | undefined
  /** Who may sign up; everyone by default. */
  readonly signup?: SignupMode | undefined
  /** Records the addresses of clients in the audit log. */
  readonly auditAddresses?: boolean | undefined
  /** Adds the client's address and account to the log line of a request. */
  readonly logClients?: boolean | undefined
  /** The directory of the built console, served at /console. */
  readonly console?: string | undefined
  /** Whether the relay is ready, reported at /health/ready; undefined if this API does not monitor a relay. */
  readonly relayIsReady?: (() => boolean) | undefined
  /** The relay to announce to clients that know only this API, once it is known. */
  readonly relay?: Promise<Omit<ServerAnnouncement, 'signup'>> | undefined
  /** Overrides of the defaults; see `Settings`. */
  readonly settings?: unknown
  readonly log: LogOptions
  readonly now?: Clock | undefined
}

export interface Api {
  /** The public address. */
  readonly url: string
  readonly internalUrl: string | undefined
  readonly service: Service
  /**
   * Uses new certificates for new connections.
   *
   * @throws if certificate and key do not match; the old ones stay in use
   */
  renew(certificate: Certificate, namedCertificate?: Certificate): void
  /** Lets pending requests finish, writes pending usage, and closes everything. */
  close(): Promise<void>
}

/**
 * Starts the API.
 * Throws `invalid_request` for invalid options, `unavailable` if the database cannot be reached,
 * and `connection_error` if an address is already in use.
 */
export async function startApi(options: ApiOptions): Promise<Api> {
  const settings: Settings = settingsFrom(options.settings ?? {})
  const hosts = [options.host, ...(options.internal ? [options.internal.host] : [])]
  const exposed = options.certificate ? undefined : hosts.find((host) => !isLoopbackName(host))
  if (exposed !== undefined) {
    const text = `Plain HTTP is for loopback only, not for ${exposed}. Pass a certificate and its key.`
    throw StaticError.of('invalid_request', text)
  }
  const log = makeLog(options.log)
  if (!options.certificate) log.warn('serving plain HTTP: for development on this machine only')
  const page = options.console === undefined ? undefined : await readBuiltPage(options.console)
  if (options.console !== undefined && !page) log.warn('the console was not built: /console is not served')
  const service = await openRules(options, settings, log)
  const servers: WebServer[] = []
  const close = async (): Promise<void> => {
    // A request that does not finish in time must not keep the process running.
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
    let { certificate } = options
    const addresses = await listenAll({ options, service, log, page, current: () => certificate }, servers)
    await service.savePublicUrl(addresses.url)
    const renew = (fresh: Certificate, namedCertificate = fresh): void => {
      for (const server of servers) server.renew({ certificate: fresh, namedCertificate })
      certificate = fresh
    }
    const stop = async (): Promise<void> => {
      log.info('API stopping')
      await close()
      log.info('API stopped')
    }
    return { ...addresses, service, renew, close: stop }
  } catch (error) {
    await close()
    throw error
  }
}

/** Opens the database and creates the rules over it. */
async function openRules(options: ApiOptions, settings: Settings, log: Logger): Promise<Service> {
  const damage = new DamageLog(log)
  const store = await openStore(options.database, {
    report: (error) => damage.note(error),
    waitSeconds: settings.databaseWaitSeconds,
  })
  const repeats = new RepeatLog(() => performance.now())
  const onError = (err: unknown): void => {
    if (isDamage(err)) return damage.note(err as Error)
    const text = 'background task failed; it will be retried'
    repeats.note(String(err), (failures) => log.error({ err, failures }, text))
  }
  try {
    const { masterKey, signup = 'open', auditAddresses = false, now = Date.now } = options
    return await openService({ store, masterKey, settings, signup, auditAddresses, now, damage, onError })
  } catch (error) {
    await store.close()
    throw error
  }
}

/** The parts that both servers share. */
interface Parts {
  /** The certificate in use. */
  readonly current: () => Certificate | undefined
  readonly options: ApiOptions
  readonly service: Service
  readonly log: Logger
  readonly page: BuiltPage | undefined
}

/** Creates the public server and, if configured, the one for relay nodes, and listens. Adds each to `servers`. */
async function listenAll(parts: Parts, servers: WebServer[]): Promise<Pick<Api, 'url' | 'internalUrl'>> {
  const { options, service, log } = parts
  const { certificate, namedCertificate = certificate, trustedProxies = [], internal } = options
  const certificates = certificate && namedCertificate && { certificate, namedCertificate }
  const scheme = certificate ? 'https' : 'http'
  let url = ''
  const name = new URL(publicUrl(scheme, options.name ?? options.host, options.port)).hostname
  const common = { service, log, certificates, name, logClients: options.logClients ?? false, url: (): string => url }
  const balancers = new Balancers(options.proxyProtocolFrom)
  // Behind a proxy, no request is local, because the proxy often runs on this machine itself.
  const isLocal = ({ socket }: FastifyRequest): boolean => trustedProxies.length === 0 && balancers.isLocal(socket)
  const main = await makeWebServer({ ...common, trustedProxies, balancers }, (app) =>
    addPublicRoutes(app, parts, () => url, isLocal),
  )
  servers.push(main)
  url = publicUrl(scheme, options.name ?? options.host, await listen(main, options.host, options.port))
  if (!internal) return { url, internalUrl: undefined }
  const inner = await makeWebServer({ ...common, trustedProxies: [], takesRequestIds: true }, (app) => {
    leaseRoutes(app, service, internal.credentials)
    overviewReportRoutes(app, service)
    deletionReportRoutes(app, service)
  })
  servers.push(inner)
  const port = await listen(inner, internal.host, internal.port)
  return { url, internalUrl: publicUrl(scheme, isLoopbackName(internal.host) ? internal.host : name, port) }
}

function addPublicRoutes(
  app: App,
  { options, service, page, current }: Parts,
  origin: () => string,
  isLocal: (request: FastifyRequest) => boolean,
): void {
  const registry = useMetrics(app, service, () => {
    const pem = current()?.cert
    return pem === undefined ? undefined : new X509Certificate(pem).validToDate.getTime() / 1000
  })
  accountRoutes(app, service, origin)
  keyRoutes(app, service, origin)
  sessionRoutes(app, service, origin)
  tokenRoutes(app, service)
  usageRoutes(app, service, origin)
  auditRoutes(app, service, origin)
  overviewRoutes(app, service, origin)
  deletionRoutes(app, service, origin)
  operatorLinkRoutes(app, service, origin)
  healthRoutes(app, service, options.relayIsReady)
  announcementRoutes(app, options.relay ?? Promise.resolve({ relay: [] }), options.signup ?? 'open')
  docsRoutes(app)
  if (page) consoleRoutes(app, page)
  const start = page ? '/console' : '/docs'
  app.get('/', { schema: { hide: true } }, (request, reply) => {
    // The router also matches the target `*` with this path.
    if (request.url.startsWith('/')) return reply.redirect(start, 302)
    return reply.callNotFound()
  })
  metricsRoutes(app, registry, options.metricsToken, isLocal)
}

async function listen(server: WebServer, host: string, port: number): Promise<number> {
  try {
    return await server.listen(host, port)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw listenError(`${host} port ${port}`, code ?? 'unknown error', cause)
  }
}

/** The name may include the public port, if there is a proxy in front. */
function publicUrl(scheme: 'http' | 'https', name: string, port: number): string {
  const host = name.includes(':') && !/:\d+$/.test(name) ? `[${name}]` : name
  const hasPort = /:\d+$/.test(host)
  return new URL(`${scheme}://${hasPort ? host : `${host}:${port}`}`).origin
}
