/** Starts a relay: opens the store, listens on both ports, and stops in order. */
import type { JSONWebKeySet } from 'jose'
import packageJson from '../package.json' with { type: 'json' }
import { type LogOptions, makeLog } from '@static/node/logger'
import { ALL_TRAFFIC, outsideRange, StaticError, type TrafficRange } from '@static/protocol'
import { type ApiAccess, makeApiClient } from './api/client.ts'
import { makeVerifier } from './api/token-verifier.ts'
import { Relay } from './core/relay.ts'
import { makeCrypto } from './crypto.ts'
import { makeMetrics, type Metrics } from './metrics.ts'
import type { Certificate, Health, QuotaSource, Retention, Store, StoreListener, Time } from './ports.ts'
import { CoreRunner } from './runner/core-runner.ts'
import { type Settings, settingsFrom } from './settings.ts'
import { openSqliteStore } from './store/sqlite/store.ts'
import { type GrpcTransport, startGrpcTransport } from './transport/grpc/transport.ts'
import { type QuicTransport, startQuicTransport } from './transport/quic/transport.ts'

/** The API in the same process. */
export interface LocalApi extends QuotaSource {
  /** The keys of its tokens, as its JWKS document lists them. */
  keys(): Promise<{ readonly keys: readonly object[] }>
}

/** Opens a store; `onDeath` is told when it cannot be used any more. */
export type OpenStore = (
  options: { readonly retention: Retention; readonly onDeath: (error: unknown) => void },
  listener: StoreListener,
) => Promise<Store>

/** How to run a relay. */
export interface RelayOptions {
  /** What agents know it by: the server name in its certificate, the same on all nodes of a deployment. */
  readonly name: string
  /** A SQLite file, or what opens another store. */
  readonly database: string | OpenStore
  readonly host: string
  /** Ports; 0 takes free ones. */
  readonly grpcPort: number
  readonly quicPort: number
  /** QUIC endpoints on consecutive ports; one is planned for 1,000 sessions. */
  readonly quicEndpoints?: number | undefined
  readonly certificate: Certificate
  /** That of the QUIC port, where another is needed: it names no addresses if its authority has name constraints. */
  readonly quicCertificate?: Certificate | undefined
  /** The authority whose client certificates stand-alone proxies show. */
  readonly proxyCa?: string | undefined
  /** Origins whose pages may call from a browser. */
  readonly origins?: readonly string[] | undefined
  /** Whether agents without a token may open sessions. */
  readonly guests?: boolean | undefined
  /** Which traffic profiles agents may choose; all of them by default. */
  readonly traffic?: TrafficRange | undefined
  readonly api: ApiAccess | LocalApi
  /** Lets others than this machine read /metrics. */
  readonly metricsToken?: string | undefined
  /** Overrides of the defaults; see `Settings`. */
  readonly settings?: unknown
  readonly log: LogOptions
  readonly now?: (() => Time) | undefined
  /** The relay cannot go on, and whoever runs it must start it anew. */
  readonly onFatal?: ((error: unknown) => void) | undefined
}

type Log = ReturnType<typeof makeLog>

/** A running relay. */
export interface RunningRelay {
  readonly grpcPort: number
  readonly quicPorts: readonly number[]
  /** Whether it can serve, as `GET /health` says it. */
  isReady(): boolean
  /**
   * Takes new certificates for connections from now on. When that of the QUIC port has changed its endpoints start anew,
   * one after the other: the library cannot swap it under open sessions.
   */
  renew(certificate: Certificate, quicCertificate?: Certificate): Promise<void>
  /** Tells sessions to dial again, finishes what was accepted, and closes everything. */
  close(): Promise<void>
}

/**
 * Starts a relay.
 * Throws `invalid_request` for settings that cannot work or a credential that the API refuses, `store_locked` when
 * another process has the database, and `connection_error` when a port is taken.
 */
export async function startRelay(options: RelayOptions): Promise<RunningRelay> {
  const settings = settingsFrom(options.settings ?? {})
  const { name, guests = true, traffic = ALL_TRAFFIC } = options
  if (outsideRange(traffic.floor, { floor: 'off', ceiling: traffic.ceiling }) !== undefined) {
    throw StaticError.of('invalid_request', 'The floor of the traffic profiles lies above their ceiling.')
  }
  const now = options.now ?? Date.now
  const log = makeLog(options.log, 'relay')
  const onError = (err: unknown): void => log.error({ err }, 'something failed that nobody waits for')
  const remote = 'url' in options.api ? makeApiClient(options.api) : undefined
  const api = remote ?? (options.api as LocalApi)
  const crypto = makeCrypto()
  await remote?.check().catch((err: unknown) => {
    if (StaticError.from(err).code !== 'unavailable') throw err
    log.warn({ err }, 'the API is out of reach: agents get no new quota until it is back')
  })

  // Nothing happens in a store before the runner asks for it.
  let runner: CoreRunner | undefined
  const store = await openStore(options, settings.retention, (event) => runner?.event(event))
  const identity = { name, guests, traffic }
  const relay = new Relay({ identity, deployment: store.deployment, settings, crypto })
  const transports: (GrpcTransport | QuicTransport)[] = []
  const metrics = makeMetrics({
    counts: () => relay.counts,
    shaping: () => running.traffic,
    pacing: () => transports.flatMap((transport) => transport.pacing()),
  })
  runner = new CoreRunner({
    relay,
    store,
    settings,
    verify: makeVerifier(async () => (await api.keys()) as JSONWebKeySet, now),
    quota: api,
    now,
    onError,
    onSend: (message, receivers) => metrics.sent(message, receivers),
  })
  const running = runner

  let stopping = false
  const health = (): Health => ({ ready: !stopping && store.healthy(), name, version: packageJson.version })
  const close = async (): Promise<void> => {
    stopping = true
    await running.drain()
    await Promise.all(transports.map((transport) => transport.stop()))
    running.stop()
    await store.close()
    remote?.close()
  }
  try {
    const grpc = await startGrpc(options, { runner: running, health, metrics, log, onError })
    transports.push(grpc)
    const quic = await startQuic(options, { runner: running, settings, log })
    transports.push(quic)
    log.info({ name, grpc: grpc.port, quic: quic.ports }, 'the relay is ready')
    return {
      grpcPort: grpc.port,
      quicPorts: quic.ports,
      isReady: () => health().ready,
      renew: renewal(options, grpc, quic),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

async function startGrpc(
  { host, grpcPort, certificate, origins = [], metricsToken }: RelayOptions,
  parts: {
    readonly runner: CoreRunner
    readonly health: () => Health
    readonly metrics: Metrics
    readonly log: Log
    readonly onError: (error: unknown) => void
  },
): Promise<GrpcTransport> {
  const { runner, health, metrics, log, onError } = parts
  const grpc: GrpcTransport = await startGrpcTransport(
    {
      host,
      port: grpcPort,
      certificate,
      origins,
      health,
      metrics: { text: () => metrics.text(), token: metricsToken },
      log: {
        cut: (address, reason) => log.warn({ address, reason }, 'a connection was cut off'),
        failed: onError,
      },
    },
    runner.streams(() => grpc),
    runner,
  )
  return grpc
}

async function startQuic(
  { host, quicPort, quicEndpoints = 1, certificate, quicCertificate = certificate, proxyCa }: RelayOptions,
  { runner, settings, log }: { readonly runner: CoreRunner; readonly settings: Settings; readonly log: Log },
): Promise<QuicTransport> {
  const quic: QuicTransport = await startQuicTransport(
    {
      host,
      port: quicPort,
      endpoints: quicEndpoints,
      certificate: quicCertificate,
      ...(proxyCa === undefined ? {} : { proxyCa }),
      maxSessions: settings.streams.quicPerEndpoint,
      log: (message, detail) => log.warn(detail, message),
    },
    runner.streams(() => quic),
  )
  return quic
}

/** Takes new certificates; the endpoints of QUIC start anew only when theirs has changed. */
function renewal(
  { certificate, quicCertificate = certificate }: RelayOptions,
  grpc: GrpcTransport,
  quic: QuicTransport,
): RunningRelay['renew'] {
  let current = quicCertificate.cert
  return async (fresh, freshQuic = fresh) => {
    grpc.renew(fresh)
    if (freshQuic.cert === current) return
    current = freshQuic.cert
    await quic.renew(freshQuic)
  }
}

function openStore(
  { database, onFatal = () => {} }: RelayOptions,
  retention: Retention,
  listener: StoreListener,
): Promise<Store> {
  const given = { retention, onDeath: onFatal }
  return typeof database === 'string'
    ? openSqliteStore({ ...given, path: database }, listener)
    : database(given, listener)
}
