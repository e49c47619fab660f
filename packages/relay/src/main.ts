/** Starts a relay: opens the store, listens on both ports, and shuts down cleanly. */
import { X509Certificate } from 'node:crypto'
import { statfs } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { dirname } from 'node:path'
import type { JSONWebKeySet } from 'jose'
import packageJson from '../package.json' with { type: 'json' }
import { type LogOptions, makeLog } from '@static/node/logger'
import { RepeatLog } from '@static/node/repeat-log'
import { ALL_TRAFFIC, outsideRange, StaticError, toHex, type TrafficRange } from '@static/protocol'
import { type ApiAccess, type ApiLog, makeApiClient } from './api/client.ts'
import { ApiMonitor } from './api/monitor.ts'
import { OverviewReporter } from './api/overview-reporter.ts'
import { makeVerifier } from './api/token-verifier.ts'
import type { Excess } from './core/limits.ts'
import { Relay } from './core/relay.ts'
import { makeCrypto } from './crypto.ts'
import { ExcessLog } from './excess-log.ts'
import { makeMetrics, type Metrics } from './metrics.ts'
import type {
  ApiState,
  Certificate,
  Health,
  OverviewSink,
  QuotaSource,
  Retention,
  Store,
  StoreListener,
  Time,
} from './ports.ts'
import { CoreRunner } from './runner/core-runner.ts'
import { type Settings, settingsFrom } from './settings.ts'
import { openSqliteStore } from './store/sqlite/store.ts'
import type { ConnectionLog } from './transport/http2/limits.ts'
import { type GrpcTransport, startGrpcTransport } from './transport/grpc/transport.ts'
import { type QuicTransport, startQuicTransport } from './transport/quic/transport.ts'

/** An API in the same process. */
export interface LocalApi extends QuotaSource, OverviewSink {
  /** The public keys of its tokens, as in its JWKS document. */
  keys(): Promise<{ readonly keys: readonly object[] }>
}

/** Opens a store; `onDeath` is called when it becomes unusable. */
export type OpenStore = (
  options: { readonly retention: Retention; readonly onDeath: (error: unknown) => void },
  listener: StoreListener,
) => Promise<Store>

/** Options of a relay. */
export interface RelayOptions {
  /** The name agents know it by: the server name in its certificate, the same on all nodes of a deployment. */
  readonly name: string
  /** Path of a SQLite file, or a function that opens another store. */
  readonly database: string | OpenStore
  readonly host: string
  /** Ports; 0 picks free ones. */
  readonly grpcPort: number
  readonly quicPort: number
  /**
   * Number of QUIC endpoints, on consecutive ports. Plan one for every 1,000 sessions. Default: one for every two
   * cores, as far as the ports after the first are free.
   */
  readonly quicEndpoints?: number | undefined
  readonly certificate: Certificate
  /**
   * Certificate for the QUIC port, and for clients of the TCP port that name the server, if they need another one:
   * BoringSSL, which QUIC and many gRPC clients use, refuses IP addresses in it if its CA has name constraints.
   */
  readonly namedCertificate?: Certificate | undefined
  /** CA of the client certificates of stand-alone proxies. */
  readonly proxyCa?: string | undefined
  /** Origins whose pages may call the relay from a browser. */
  readonly origins?: readonly string[] | undefined
  /** Whether agents without a token may open sessions. */
  readonly guests?: boolean | undefined
  /** The traffic profiles that agents may choose. Default: all. */
  readonly traffic?: TrafficRange | undefined
  readonly api: ApiAccess | LocalApi
  /** Logs each session with agent, account and address, which are personal data. */
  readonly logClients?: boolean | undefined
  /** Token with which other machines may read /metrics. */
  readonly metricsToken?: string | undefined
  /** Overrides of the defaults; see `Settings`. */
  readonly settings?: unknown
  readonly log: LogOptions
  /** The wall clock. Default: the system's. */
  readonly now?: (() => Time) | undefined
  /** Milliseconds of a monotonic clock. Default: the system's. */
  readonly monotonic?: (() => Time) | undefined
  /** Called when the relay cannot go on and must be restarted. */
  readonly onFatal?: ((error: unknown) => void) | undefined
}

type Log = ReturnType<typeof makeLog>

/** An API in this process answers, and has our clock. */
const SAME_PROCESS: ApiState = { problem: undefined, clockOffsetMs: 0 }

/** A running relay. */
export interface RunningRelay {
  readonly grpcPort: number
  readonly quicPorts: readonly number[]
  /** Whether it can serve, as reported by `GET /health`. */
  isReady(): boolean
  /**
   * Uses new certificates for connections from now on. If that of the QUIC port has changed, the QUIC endpoints restart
   * one after the other, because the library cannot swap it under open sessions.
   */
  renew(certificate: Certificate, namedCertificate?: Certificate): Promise<void>
  /**
   * Writes a copy of the database to a new file while it serves.
   *
   * Throws `unavailable` if the copy cannot be written, or if the store has no file to copy.
   */
  backup(path: string): Promise<void>
  /** Asks sessions to reconnect, finishes accepted requests, and closes everything. */
  close(): Promise<void>
}

/**
 * Starts a relay.
 *
 * Throws `invalid_request` for invalid settings or a credential that the API refuses, `store_locked` if another process
 * has the database open, and `connection_error` if a port is in use.
 */
export async function startRelay(options: RelayOptions): Promise<RunningRelay> {
  const settings = settingsFrom(options.settings ?? {})
  const { name, guests = true, traffic = ALL_TRAFFIC } = options
  if (outsideRange(traffic.floor, { floor: 'off', ceiling: traffic.ceiling }) !== undefined) {
    const { floor, ceiling } = traffic
    throw StaticError.of('invalid_request', `The lowest traffic profile (${floor}) is above the highest (${ceiling}).`)
  }
  const now = options.now ?? Date.now
  const log = makeLog(options.log, 'relay')
  const onError = (err: unknown): void => log.error({ err }, 'background task failed')
  const monotonic = options.monotonic ?? (() => performance.now())
  const repeats = new RepeatLog(monotonic)
  const remote = 'url' in options.api ? makeApiClient(options.api, now, apiLog(log, repeats)) : undefined
  const api = remote ?? (options.api as LocalApi)
  const crypto = makeCrypto()
  await remote?.check().catch((err: unknown) => {
    if (StaticError.from(err).code !== 'unavailable') throw err
    log.warn({ err }, 'the API is unreachable: agents get no new quota until it is back')
  })

  const monitor = remote && new ApiMonitor(remote, log)

  // Agents can open sessions only once it is known.
  let grpcPort = 0
  // The store reports nothing before the runner asks it for something.
  let runner: CoreRunner | undefined
  const commits = { on: (_milliseconds: number): void => {} }
  const onCommit = (milliseconds: number): void => commits.on(milliseconds)
  const store = await openStore(options, { retention: settings.retention, onCommit }, (event) => runner?.event(event))
  const identity = { name, guests, traffic, grpcPort: () => grpcPort }
  const relay = new Relay({ identity, deployment: store.deployment, settings, crypto })
  const transports: (GrpcTransport | QuicTransport)[] = []
  let expiry = expiryOf(options.certificate)
  const metrics = makeMetrics({
    certificateExpiry: () => expiry,
    counts: () => relay.counts,
    transports: () => relay.transports,
    throttledCommits: () => relay.throttledCommits,
    shaping: () => running.traffic,
    pacing: () => transports.flatMap((transport) => transport.pacing()),
    leases: () => relay.leases,
    census: () => store.census?.(),
    diskFree: () => diskFree(options.database),
    now,
    version: packageJson.version,
  })
  commits.on = (milliseconds) => metrics.committed(milliseconds)
  const excess = new ExcessLog(log, monotonic)
  const onExcess = (one: Excess): void => {
    metrics.refused(one.limit)
    excess.note(one)
  }
  runner = new CoreRunner({
    relay,
    store,
    settings,
    verify: makeVerifier(async () => (await api.keys()) as JSONWebKeySet, now),
    quota: api,
    now,
    monotonic,
    onError,
    onStoreError: (err) =>
      repeats.note('store', (failures) => log.error({ err, failures }, 'the store failed; retrying')),
    onExcess,
    onSend: (message, receivers, tookMs) => metrics.sent(message, receivers, tookMs),
    onSession: (session) => {
      if (options.logClients) log.info(session, 'session opened')
    },
  })
  const running = runner
  const reporter = new OverviewReporter({
    sink: api,
    store,
    agentsOf: (account, limit) => running.agentsOf(account, limit),
    relay: { id: toHex(store.deployment.relayId), name, since: new Date(now()).toISOString() },
    onError,
  })

  let stopping = false
  const health = (): Health => ({
    ready: !stopping && store.healthy(),
    api: monitor?.state ?? SAME_PROCESS,
    name,
    version: packageJson.version,
  })
  const close = async (): Promise<void> => {
    stopping = true
    monitor?.stop()
    reporter.stop()
    await running.drain()
    await Promise.all(transports.map((transport) => transport.stop()))
    running.stop()
    await store.close()
    remote?.close()
  }
  try {
    const cut = excess.cut.bind(excess)
    const grpc = await startGrpc(options, { runner: running, settings, health, metrics, onError, onExcess, cut })
    grpcPort = grpc.port
    transports.push(grpc)
    const quic = await startQuic(options, { runner: running, settings, log, onExcess })
    transports.push(quic)
    const renew = renewal(options, grpc, quic)
    monitor?.start()
    reporter.start()
    // The id for agents that ask whether it is the right relay (`relay_changed`).
    const relayId = toHex(store.deployment.relayId)
    log.info({ name, relay_id: relayId, grpc: grpc.port, quic: quic.ports }, 'relay ready')
    return {
      grpcPort: grpc.port,
      quicPorts: quic.ports,
      isReady: () => health().ready,
      renew: async (fresh, freshNamed) => {
        await renew(fresh, freshNamed)
        expiry = expiryOf(fresh)
      },
      backup: async (path) => {
        if (!store.backup) throw StaticError.of('unavailable', 'The store of this relay is not a file.')
        await store.backup(path)
      },
      close: async () => {
        log.info('relay stopping')
        await close()
        log.info('relay stopped')
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

async function startGrpc(
  { host, grpcPort, certificate, namedCertificate, origins = [], metricsToken }: RelayOptions,
  parts: {
    readonly runner: CoreRunner
    readonly settings: Settings
    readonly health: () => Health
    readonly metrics: Metrics
    readonly onError: (error: unknown) => void
    readonly onExcess: (excess: Excess) => void
    readonly cut: ConnectionLog['cut']
  },
): Promise<GrpcTransport> {
  const { runner, settings, health, metrics, onError, onExcess, cut } = parts
  const { connections, connectionsPerAddress } = settings.streams
  const grpc: GrpcTransport = await startGrpcTransport(
    {
      host,
      port: grpcPort,
      certificate,
      namedCertificate,
      origins,
      health,
      metrics: { text: () => metrics.text(), token: metricsToken },
      limits: { connections, connectionsPerAddress },
      log: {
        cut,
        full: (address, { limit, value }) => onExcess({ address, limit, value }),
        failed: onError,
      },
    },
    runner.streams(() => grpc),
    runner,
  )
  return grpc
}

async function startQuic(
  { host, quicPort, quicEndpoints, certificate, namedCertificate = certificate, proxyCa }: RelayOptions,
  parts: {
    readonly runner: CoreRunner
    readonly settings: Settings
    readonly log: Log
    readonly onExcess: (excess: Excess) => void
  },
): Promise<QuicTransport> {
  const { runner, settings, log, onExcess } = parts
  const quic: QuicTransport = await startQuicTransport(
    {
      host,
      port: quicPort,
      endpoints: quicEndpoints ?? endpointsFor(availableParallelism()),
      allPorts: quicEndpoints !== undefined,
      certificate: namedCertificate,
      ...(proxyCa === undefined ? {} : { proxyCa }),
      maxSessions: settings.streams.quicPerEndpoint,
      full: (address, { limit, value }) => onExcess({ address, limit, value }),
      log: (message, detail) => log.warn(detail, message),
    },
    runner.streams(() => quic),
  )
  return quic
}

/** The API's log has the same request ids. */
function apiLog(log: Log, repeats: RepeatLog): ApiLog {
  return {
    debug: (call, message) => log.debug(call, message),
    failed: (call, err) =>
      repeats.note('api', (failures) => log.warn({ ...call, err, failures }, 'calls to the API fail')),
  }
}

const MOST_DEFAULT_ENDPOINTS = 8

/** Each endpoint uses one thread here and one in the library; the relay and its store need one each. */
function endpointsFor(cores: number): number {
  return Math.min(MOST_DEFAULT_ENDPOINTS, Math.max(1, Math.floor(cores / 2)))
}

/** When a certificate expires, in seconds since 1970. */
function expiryOf({ cert }: Certificate): number {
  return new X509Certificate(cert).validToDate.getTime() / 1000
}

/** Uses new certificates. QUIC endpoints restart only if theirs has changed. */
function renewal(
  { certificate, namedCertificate = certificate }: RelayOptions,
  grpc: GrpcTransport,
  quic: QuicTransport,
): RunningRelay['renew'] {
  let current = namedCertificate.cert
  return async (fresh, freshNamed = fresh) => {
    grpc.renew(fresh, freshNamed)
    if (freshNamed.cert === current) return
    current = freshNamed.cert
    await quic.renew(freshNamed)
  }
}

function openStore(
  { database, onFatal = () => {} }: RelayOptions,
  given: { readonly retention: Retention; readonly onCommit: (milliseconds: number) => void },
  listener: StoreListener,
): Promise<Store> {
  return typeof database === 'string'
    ? openSqliteStore({ ...given, onDeath: onFatal, path: database }, listener)
    : database({ retention: given.retention, onDeath: onFatal }, listener)
}

/** Free bytes where the database is; undefined if it is not a file. */
async function diskFree(database: RelayOptions['database']): Promise<number | undefined> {
  if (typeof database !== 'string') return undefined
  const { bavail, bsize } = await statfs(dirname(database))
  return bavail * bsize
}
