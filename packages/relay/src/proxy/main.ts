/** Starts a stand-alone proxy: gRPC from agents, QUIC to a relay. */
import packageJson from '../../package.json' with { type: 'json' }
import { Balancers } from '@static/node/balancers'
import { ConnectionError, type ConnectionFailure } from '@static/node/connection-error'
import { placeOf } from '@static/node/dial'
import { type LogOptions, makeLog } from '@static/node/logger'
import { RepeatLog } from '@static/node/repeat-log'
import { ExcessLog } from '../excess-log.ts'
import type { Certificate } from '../ports.ts'
import { ProxyCalls } from './calls.ts'
import { ProxyFiles, type ProxyPorts } from './files.ts'
import type { FilesUpstream } from './forwarder.ts'
import { greet } from './greeting.ts'
import { QuicUpstream } from './quic-upstream.ts'
import { ProxySessions } from './sessions.ts'
import { type GrpcTransport, startGrpcTransport } from '../transport/grpc/transport.ts'

export interface ProxyOptions {
  /** The relay's name. Agents check it, so the proxy's certificate must contain it. */
  readonly name: string
  readonly host: string
  readonly grpcPort: number
  /** Load balancers (addresses, networks) that must announce their clients with the PROXY protocol. */
  readonly proxyProtocolFrom?: readonly string[] | undefined
  readonly certificate: Certificate
  /** How to reach the relay, and the client certificate for it. */
  readonly relay: {
    /** The addresses of its nodes. */
    readonly addresses: readonly { readonly host: string; readonly port: number }[]
    /** CA of the relay's certificate, PEM. */
    readonly ca: string
    readonly clientCertificate: Certificate
  }
  /** The port of files, and the addresses of the relay's. Without it, agents get `files_unavailable`. */
  readonly files?: ProxyFilesOptions | undefined
  /** Number of QUIC connections, shared by all agents. */
  readonly connections?: number | undefined
  readonly origins?: readonly string[] | undefined
  readonly log: LogOptions
}

export interface ProxyFilesOptions {
  /** 0 picks a free port. */
  readonly port: number
  /** `https://name:port`, which agents use in place of this host and that port. */
  readonly url?: string | undefined
  readonly relay: FilesUpstream['addresses']
}

export interface RunningProxy {
  readonly grpcPort: number
  /** Undefined if it forwards no files. */
  readonly filesPort: number | undefined
  renew(certificate: Certificate): void
  close(): Promise<void>
}

/**
 * Starts a proxy. Throws `connection_error` if the port is in use, or if the relay's answer shows that a certificate is
 * wrong, so that the operator notices at once. If the relay is merely down, the proxy waits for it and is not ready
 * meanwhile.
 */
export async function startProxy(options: ProxyOptions): Promise<RunningProxy> {
  const log = makeLog(options.log, 'relay')
  const { name, relay } = options
  const balancers = new Balancers(options.proxyProtocolFrom)
  const { addresses, ca, clientCertificate } = relay
  const nodes = addresses.map((address) => ({
    ...address,
    ca,
    clientCertificate,
    serverName: name,
    probeAfterMs: PROBE_AFTER_MS,
  }))
  const upstream = new QuicUpstream(nodes, options.connections ?? 2, Date.now, Math.random)
  const place = addresses.map(({ host, port }) => placeOf(host, port)).join(', ')
  const repeats = new RepeatLog(() => performance.now())
  const onError = (err: unknown): void =>
    repeats.note(`forwarding ${String(err)}`, (failures) =>
      log.warn({ err, failures }, 'forwarding a session or call failed'),
    )
  const excess = new ExcessLog(log, () => performance.now())
  // Agents connect only once it is set.
  let grpcPort = 0
  let files: ProxyFiles | undefined
  const ports = (): ProxyPorts => ({ grpc: grpcPort, files: files?.port ?? 0, filesUrl: options.files?.url ?? '' })
  const sessions = new ProxySessions(upstream, ports, onError)
  let stopping = false
  try {
    await reach(upstream, onError).catch((error: unknown) => {
      if (!isAbsent(error)) throw error
      log.warn({ err: error, relay: place }, 'the relay cannot be reached: the proxy is not ready and keeps trying')
    })
    files = await openFiles(options, (reason) =>
      repeats.note(`files ${reason}`, (failures) => log.warn({ reason, failures }, 'forwarding files failed')),
    )
    const grpc: GrpcTransport = await startGrpcTransport(
      {
        host: options.host,
        port: options.grpcPort,
        certificate: options.certificate,
        balancers,
        origins: options.origins ?? [],
        health: () => ({
          ready: !stopping && upstream.connected,
          files: { port: ports().files, url: ports().filesUrl },
          name,
          version: packageJson.version,
        }),
        log: {
          cut: (address, reason) => excess.cut(address, reason),
          full: (address, { limit, value }) => excess.note({ address, limit, value }),
          failed: (err) =>
            repeats.note(String(err), (failures) => log.error({ err, failures }, 'background task failed')),
        },
      },
      sessions.streams(() => grpc),
      new ProxyCalls(upstream, ports, onError),
    )
    grpcPort = grpc.port
    log.info({ name, grpc: grpc.port, files: files?.port, relay: place }, 'proxy ready')
    return {
      grpcPort: grpc.port,
      filesPort: files?.port,
      renew: (certificate) => {
        grpc.renew(certificate)
        files?.renew(certificate)
      },
      close: async () => {
        stopping = true
        log.info('proxy stopping')
        await Promise.all([grpc.stop(), files?.close()])
        await upstream.close()
        log.info('proxy stopped')
      },
    }
  } catch (error) {
    await files?.close()
    await upstream.close()
    throw error
  }
}

async function openFiles(
  { files, host, certificate: { cert, key }, proxyProtocolFrom = [], name, relay }: ProxyOptions,
  failed: (reason: string) => void,
): Promise<ProxyFiles | undefined> {
  if (!files) return undefined
  const { ca, clientCertificate } = relay
  const upstream = { addresses: files.relay, serverName: name, ca, clientCertificate }
  return await ProxyFiles.open(
    { host, port: files.port, certificate: { cert, key }, proxyProtocolFrom, upstream },
    failed,
  )
}

async function reach(upstream: QuicUpstream, onError: (error: unknown) => void): Promise<void> {
  await upstream.dial()
  await greet(upstream, onError)
}

/** Whether the relay is down or unreachable and may recover; a wrong certificate or name will not. */
function isAbsent(error: unknown): boolean {
  return error instanceof ConnectionError && ABSENT.includes(error.reason)
}

/** Another node may answer before a closed port times out. */
const PROBE_AFTER_MS = 500
const ABSENT: readonly ConnectionFailure[] = ['refused', 'unreachable', 'timed_out', 'closed']
