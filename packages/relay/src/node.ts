/** A relay without its ports: the core with its store, its API, its log and its metrics. */
import { randomBytes, X509Certificate } from 'node:crypto'
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { JSONWebKeySet } from 'jose'
import packageJson from '../package.json' with { type: 'json' }
import type { makeLog } from '@static/node/logger'
import type { RepeatLog } from '@static/node/repeat-log'
import { ALL_TRAFFIC, outsideRange, StaticError } from '@static/protocol'
import { NO_WIRE } from './bus/no-wire.ts'
import { NodeBus } from './bus/node-bus.ts'
import { makeVerifier } from './api/token-verifier.ts'
import type { Excess } from './core/sessions/limits.ts'
import { Relay } from './core/relay.ts'
import { makeCrypto } from './crypto.ts'
import { ExcessLog } from './excess-log.ts'
import type { FilesPort } from './files/port.ts'
import { makeMetrics, type Metrics } from './metrics.ts'
import type { LocalApi, RelayOptions } from './options.ts'
import type {
  Bus,
  BusListener,
  Certificate,
  FilesPlace,
  QuotaSource,
  Retention,
  Store,
  StoreListener,
  Time,
} from './ports.ts'
import { CoreRunner } from './runner/core-runner.ts'
import type { Settings } from './settings.ts'
import { isPostgresUrl } from '@static/node/postgres-address'
import { openSqliteStore } from './store/sqlite/store.ts'
import type { ConnectionLog } from './transport/http2/limits.ts'
import type { GrpcTransport } from './transport/grpc/transport.ts'
import type { QuicTransport } from './transport/quic/transport.ts'

const NODE_ID_BYTES = 16

/** The relay's log. */
export type RelayLog = ReturnType<typeof makeLog>

/** The transports through which agents connect. */
export interface Transports {
  readonly grpc: GrpcTransport
  readonly quic: QuicTransport
  /** Undefined if this relay has no place for files. */
  readonly files?: FilesPort | undefined
}

/** The parts that a node is built from. */
export interface NodeParts {
  readonly options: RelayOptions
  readonly settings: Settings
  readonly api: Pick<LocalApi, 'keys'> & QuotaSource
  readonly log: RelayLog
  readonly repeats: RepeatLog
  readonly now: () => Time
  readonly monotonic: () => Time
  readonly onError: (error: unknown) => void
}

/** A relay that has no ports yet. */
export interface RelayNode {
  readonly store: Store
  /** Undefined if the store serves this node only. */
  readonly bus: Bus | undefined
  readonly runner: CoreRunner
  readonly metrics: Metrics
  /** Set once they are open. Agents can open sessions only once there is one, and learn the gRPC port from it. */
  readonly transports: Partial<{ -readonly [Way in keyof Transports]: Transports[Way] }>
  /** Sets the certificate in use, whose expiry the metrics show. */
  uses(certificate: Certificate): void
  /** Counts and logs peers that a limit refused. */
  readonly onExcess: (excess: Excess) => void
  /** Logs connections that were dropped. */
  readonly cut: ConnectionLog['cut']
  /** Finishes accepted requests and closes everything. */
  close(): Promise<void>
}

/** Opens the store and starts the core over it. Throws as `startRelay` does. */
export async function openNode(parts: NodeParts): Promise<RelayNode> {
  const { options, settings, log, now, monotonic } = parts
  const { name, guests = true, traffic = ALL_TRAFFIC } = options
  if (outsideRange(traffic.floor, { floor: 'off', ceiling: traffic.ceiling }) !== undefined) {
    const { floor, ceiling } = traffic
    throw StaticError.of('invalid_request', `The lowest traffic profile (${floor}) is above the highest (${ceiling}).`)
  }
  const transports: RelayNode['transports'] = {}
  // The store reports nothing before the runner first calls it.
  const made: { runner?: CoreRunner; metrics?: Metrics } = {}
  const given = {
    retention: settings.retention,
    onCommit: (milliseconds: number) => made.metrics?.committed(milliseconds),
    onDamage: (err: unknown) =>
      log.error({ err }, 'damaged rows in PostgreSQL: restore a backup, or promote the standby'),
  }
  const store = await openStore(options, given, (event) => made.runner?.event(event))
  const files = portOfFiles(transports, options)
  const identity = { name, guests, traffic, grpcPort: () => transports.grpc?.port ?? 0, files }
  const { deployment } = store
  const bus = await openBus(parts, store, {
    news: (news, from) => made.runner?.news(news, from),
    doubt: () => made.runner?.doubt(),
  })
  const cluster = bus && {
    node: bus.node,
    clockOffsetMs: () => store.clockOffsetMs?.() ?? 0,
    bus: () => bus.state,
    nodes: () => store.nodes?.() ?? 1,
  }
  const filesPlace = (): FilesPlace => transports.files?.place ?? 'none'
  const relay = new Relay({ identity, deployment, settings, crypto: makeCrypto(), cluster, filesPlace })
  let expiry = expiryOf(options.certificate)
  const metrics = makeMetrics({
    certificateExpiry: () => expiry,
    counts: () => relay.counts,
    transports: () => relay.transports,
    throttledCommits: () => relay.throttledCommits,
    shaping: () => runner.traffic,
    pacing: () => [transports.grpc, transports.quic].flatMap((transport) => transport?.pacing() ?? []),
    leases: () => relay.leases,
    census: () => store.census?.(),
    durability: () => store.durability(),
    storeClockOffsetMs: () => store.clockOffsetMs?.(),
    diskFree: () => diskFree(options.database),
    bus: () => {
      const { catchUps } = relay
      return bus && catchUps && options.nats && { state: bus.state, counts: bus.counts, catchUps }
    },
    files: options.files && (() => transports.files),
    now,
    version: packageJson.version,
  })
  const excess = new ExcessLog(log, monotonic)
  const onExcess = (one: Excess): void => {
    metrics.refused(one.limit)
    excess.note(one)
  }
  const runner = startRunner(parts, { relay, store, bus, metrics, onExcess })
  Object.assign(made, { runner, metrics })
  return {
    store,
    bus,
    runner,
    metrics,
    transports,
    uses: (certificate) => {
      expiry = expiryOf(certificate)
    },
    onExcess,
    cut: excess.cut.bind(excess),
    async close() {
      await runner.drain()
      await Promise.all([transports.grpc?.stop(), transports.quic?.stop(), transports.files?.close()])
      runner.stop()
      await bus?.close()
      await store.close()
    },
  }
}

/** What agents learn of the port of files, once it is open. */
export function portOfFiles(
  transports: RelayNode['transports'],
  { files }: RelayOptions,
): () => { readonly port: number; readonly url: string } | undefined {
  return () => transports.files && { port: transports.files.port, url: files?.url ?? '' }
}

/** When a certificate expires, in seconds since 1970. */
function expiryOf({ cert }: Certificate): number {
  return new X509Certificate(cert).validToDate.getTime() / 1000
}

function startRunner(
  { options, settings, api, log, repeats, now, monotonic, onError }: NodeParts,
  core: {
    readonly relay: Relay
    readonly store: Store
    readonly bus: Bus | undefined
    readonly metrics: Metrics
    readonly onExcess: (excess: Excess) => void
  },
): CoreRunner {
  const { relay, store, bus, metrics, onExcess } = core
  return new CoreRunner({
    relay,
    store,
    settings,
    verify: makeVerifier(async () => (await api.keys()) as JSONWebKeySet, now),
    quota: api,
    bus,
    now,
    monotonic,
    nextTurn: setImmediate,
    onError,
    onStoreError: (err) =>
      repeats.note('store', (failures) => log.error({ err, failures }, 'the store failed; retrying')),
    onExcess,
    onSend: (message, receivers, tookMs) => metrics.sent(message, receivers, tookMs),
    onSession: (session) => {
      if (options.logClients) log.info(session, 'session opened')
    },
  })
}

/** The bus to the nodes that share the store; undefined if it serves only this one. */
async function openBus(
  { options: { nats }, log, now, monotonic }: NodeParts,
  store: Store,
  listener: BusListener,
): Promise<Bus | undefined> {
  const { relayId, busKey: key } = store.deployment
  if (key === undefined) {
    if (nats === undefined) return undefined
    throw StaticError.of('invalid_request', 'NATS connects nodes that share a database, so it requires PostgreSQL.')
  }
  const onState = (connected: boolean, err: unknown): void => {
    if (connected) log.info('connected to NATS')
    else log.warn({ err }, 'NATS is unreachable: news from other nodes comes up to a second late')
  }
  // Loaded only if used.
  const wire = nats ? (await import('./bus/nats.ts')).natsWire({ ...nats, onState }) : NO_WIRE
  const node = randomBytes(NODE_ID_BYTES).toString('hex')
  return new NodeBus({ relayId, key, node, wire, now, monotonic }, listener)
}

async function openStore(
  { database, keyFile, onFatal = () => {} }: RelayOptions,
  {
    onDamage,
    ...given
  }: {
    readonly retention: Retention
    readonly onCommit: (milliseconds: number) => void
    readonly onDamage: (error: unknown) => void
  },
  listener: StoreListener,
): Promise<Store> {
  if (typeof database !== 'string') return await database({ retention: given.retention, onDeath: onFatal }, listener)
  if (!isPostgresUrl(database)) return await openSqliteStore({ ...given, onDeath: onFatal, path: database }, listener)
  if (keyFile === undefined) throw StaticError.of('invalid_request', 'keyFile is required with PostgreSQL.')
  // Loaded only if used.
  const { openPostgresStore } = await import('./store/postgres/store.ts')
  return await openPostgresStore({ ...given, onDamage, url: database, keyFile }, listener)
}

/** Free bytes on the database's disk; undefined if it is not a file. */
async function diskFree(database: RelayOptions['database']): Promise<number | undefined> {
  if (typeof database !== 'string' || isPostgresUrl(database)) return undefined
  const { bavail, bsize } = await statfs(dirname(database))
  return bavail * bsize
}
