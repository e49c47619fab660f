/** Starts a relay: opens the store, listens on both ports, and shuts down cleanly. */
import { availableParallelism } from 'node:os'
import packageJson from '../package.json' with { type: 'json' }
import { Balancers } from '@static/node/balancers'
import { makeLog } from '@static/node/logger'
import { RepeatLog } from '@static/node/repeat-log'
import { StaticError, toHex } from '@static/protocol'
import { channelDeletions } from './api/channel-deletions.ts'
import { type ApiLog, makeApiClient } from './api/client.ts'
import { ApiMonitor } from './api/monitor.ts'
import { type AccountRoom, accountRoom } from './api/account-room.ts'
import { overviewReporter } from './api/overview-reporter.ts'
import { FilesPort } from './files/port.ts'
import { FileSweeper } from './files/sweeper.ts'
import { openNode, portOfFiles, type RelayLog, type RelayNode, type Transports } from './node.ts'
import type { LocalApi, RelayOptions } from './options.ts'
import { type ApiState, type Certificate, type Health, MAX_STORE_CLOCK_OFFSET_MS } from './ports.ts'
import { type Settings, settingsFrom } from './settings.ts'
import { type GrpcTransport, startGrpcTransport } from './transport/grpc/transport.ts'
import { type QuicTransport, startQuicTransport } from './transport/quic/transport.ts'

/** An API in this process always answers and shares our clock. */
const SAME_PROCESS: ApiState = { problem: undefined, clockOffsetMs: 0 }

export interface RunningRelay {
  readonly grpcPort: number
  readonly quicPorts: readonly number[]
  /** Undefined if it has no place for files. */
  readonly filesPort: number | undefined
  /** Whether it can serve, as reported by `GET /health`. */
  isReady(): boolean
  /**
   * Uses new certificates for later connections. If the QUIC port's certificate has changed, the QUIC endpoints restart
   * one after the other, because the library cannot swap it under open sessions.
   */
  renew(certificate: Certificate, namedCertificate?: Certificate): Promise<void>
  /**
   * Writes a copy of the database to a new file while the relay serves.
   *
   * Throws `unavailable` if the copy cannot be written, or if the store has no file to copy.
   */
  backup(path: string): Promise<void>
  /** What an account keeps here, of both modes. */
  roomOf(account: string): Promise<AccountRoom>
  /** Asks sessions to reconnect, finishes accepted requests, and closes everything. */
  close(): Promise<void>
}

/**
 * Starts a relay.
 *
 * Throws `invalid_request` for invalid settings or a credential that the API rejects, `store_locked` if another process
 * has the database open, and `connection_error` if a port is in use.
 */
export async function startRelay(options: RelayOptions): Promise<RunningRelay> {
  const settings = settingsFrom(options.settings ?? {})
  const { name, now = Date.now, monotonic = () => performance.now() } = options
  const log = makeLog(options.log, 'relay')
  const repeats = new RepeatLog(monotonic)
  const onError = (err: unknown): void =>
    repeats.note(String(err), (failures) => log.error({ err, failures }, 'background task failed'))
  const remote = 'urls' in options.api ? makeApiClient(options.api, now, apiLog(log, repeats)) : undefined
  const api = remote ?? (options.api as LocalApi)
  await remote?.check().catch((err: unknown) => {
    if (StaticError.from(err).code !== 'unavailable') throw err
    log.warn({ err }, 'the API is unreachable: agents get no new quota until it is back')
  })
  const monitor = remote && new ApiMonitor(remote, log)
  const node = await openNode({ options, settings, api, log, repeats, now, monotonic, onError })
  const { store, runner } = node
  const relayId = toHex(store.deployment.relayId)
  const reporter = overviewReporter({
    sink: api,
    store,
    agentsOf: (account, limit) => runner.agentsOf(account, limit),
    relay: { id: relayId, name, since: new Date(now()).toISOString() },
    onError,
  })
  const deletions = channelDeletions({ source: api, store, relayId, onError })
  let stopping = false
  let sweeper: FileSweeper | undefined
  const health = (): Health => {
    const clockOffsetMs = store.clockOffsetMs?.()
    return {
      ready: !stopping && store.healthy() && Math.abs(clockOffsetMs ?? 0) <= MAX_STORE_CLOCK_OFFSET_MS,
      api: monitor?.state ?? SAME_PROCESS,
      bus: node.bus?.state,
      store: { durability: store.durability(), clockOffsetMs },
      files: portOfFiles(node.transports, options)(),
      name,
      version: packageJson.version,
    }
  }
  const close = async (): Promise<void> => {
    stopping = true
    monitor?.stop()
    reporter.stop()
    deletions.stop()
    await sweeper?.stop()
    await node.close()
    remote?.close()
  }
  try {
    const { grpc, quic, files } = await listen(options, { node, settings, health, log, repeats, onError })
    sweeper = files && new FileSweeper({ store, parts: files, now, failed: onError })
    monitor?.start()
    reporter.start()
    deletions.start()
    // Operators can compare the id with the one in an agent's `relay_changed` error.
    log.info({ name, relay_id: relayId, grpc: grpc.port, quic: quic.ports, files: files?.port }, 'relay ready')
    return {
      grpcPort: grpc.port,
      quicPorts: quic.ports,
      filesPort: files?.port,
      isReady: () => health().ready,
      renew: renewal(options, node),
      backup: async (path) => {
        if (!store.backup) throw StaticError.of('unavailable', 'The store of this relay is not a file.')
        await store.backup(path)
      },
      roomOf: (account) => accountRoom(store, account),
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

interface Listening {
  readonly node: RelayNode
  readonly settings: Settings
  readonly health: () => Health
  readonly log: RelayLog
  readonly repeats: RepeatLog
  readonly onError: (error: unknown) => void
}

/** Opens the ports. */
async function listen(options: RelayOptions, parts: Listening): Promise<Transports> {
  const { transports } = parts.node
  transports.grpc = await startGrpc(options, parts)
  transports.quic = await startQuic(options, parts)
  transports.files = await startFiles(options, parts)
  return { grpc: transports.grpc, quic: transports.quic, files: transports.files }
}

async function startGrpc(
  { host, grpcPort, proxyProtocolFrom, certificate, namedCertificate, origins = [], metricsToken }: RelayOptions,
  { node: { runner, metrics, onExcess, cut }, settings, health, onError }: Listening,
): Promise<GrpcTransport> {
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
      balancers: new Balancers(proxyProtocolFrom),
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
  { node: { runner, onExcess }, settings, log, repeats }: Listening,
): Promise<QuicTransport> {
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
      log: (message, detail) =>
        repeats.note(`${message} ${detail.detail}`, (times) => log.warn({ ...detail, times }, message)),
    },
    runner.streams(() => quic),
  )
  return quic
}

async function startFiles(
  { host, files, certificate, namedCertificate = certificate, proxyProtocolFrom = [], proxyCa }: RelayOptions,
  { node: { runner }, settings, log, repeats }: Listening,
): Promise<FilesPort | undefined> {
  if (!files) return undefined
  return await FilesPort.open({
    host,
    port: files.port,
    store: files.store,
    certificate,
    namedCertificate,
    proxyProtocolFrom,
    proxyCa,
    bytesPerSecond: settings.files.bytesPerSecond,
    gate: runner.parts,
    failed: (reason) => repeats.note(`files ${reason}`, (failures) => log.error({ reason, failures }, 'files failed')),
  })
}

/** The API's log has the same request ids. */
function apiLog(log: RelayLog, repeats: RepeatLog): ApiLog {
  return {
    debug: (call, message) => log.debug(call, message),
    failed: (call, err) =>
      repeats.note('api', (failures) => log.warn({ ...call, err, failures }, 'calls to the API fail')),
  }
}

const MOST_DEFAULT_ENDPOINTS = 8

/** Each endpoint uses one thread of ours and one of the library; the relay and its store need one each. */
function endpointsFor(cores: number): number {
  return Math.min(MOST_DEFAULT_ENDPOINTS, Math.max(1, Math.floor(cores / 2)))
}

/** Uses new certificates. QUIC endpoints restart only if theirs has changed. */
function renewal(
  { certificate, namedCertificate = certificate }: RelayOptions,
  node: RelayNode,
): RunningRelay['renew'] {
  let current = namedCertificate.cert
  return async (fresh, freshNamed = fresh) => {
    node.transports.grpc?.renew(fresh, freshNamed)
    node.transports.files?.renew(fresh, freshNamed)
    if (freshNamed.cert !== current) {
      current = freshNamed.cert
      await node.transports.quic?.renew(freshNamed)
    }
    node.uses(fresh)
  }
}
