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
  /** Number of QUIC connections, shared by all agents. */
  readonly connections?: number | undefined
  readonly origins?: readonly string[] | undefined
  readonly log: LogOptions
}

export interface RunningProxy {
  readonly grpcPort: number
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
  const sessions = new ProxySessions(upstream, () => grpcPort, onError)
  let stopping = false
  try {
    await reach(upstream, onError).catch((error: unknown) => {
      if (!isAbsent(error)) throw error
      log.warn({ err: error, relay: place }, 'the relay cannot be reached: the proxy is not ready and keeps trying')
    })
    const grpc: GrpcTransport = await startGrpcTransport(
      {
        host: options.host,
        port: options.grpcPort,
        certificate: options.certificate,
        balancers,
        origins: options.origins ?? [],
        health: () => ({ ready: !stopping && upstream.connected, name, version: packageJson.version }),
        log: {
          cut: (address, reason) => excess.cut(address, reason),
          full: (address, { limit, value }) => excess.note({ address, limit, value }),
          failed: (err) =>
            repeats.note(String(err), (failures) => log.error({ err, failures }, 'background task failed')),
        },
      },
      sessions.streams(() => grpc),
      new ProxyCalls(upstream, () => grpcPort, onError),
    )
    grpcPort = grpc.port
    log.info({ name, grpc: grpc.port, relay: place }, 'proxy ready')
    return {
      grpcPort: grpc.port,
      renew: (certificate) => grpc.renew(certificate),
      close: async () => {
        stopping = true
        log.info('proxy stopping')
        await grpc.stop()
        await upstream.close()
        log.info('proxy stopped')
      },
    }
  } catch (error) {
    await upstream.close()
    throw error
  }
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
