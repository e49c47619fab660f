/** A real relay on loopback, over QUIC, over gRPC, or over gRPC through a stand-alone proxy. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { REVISION, type TrafficRange } from '@static/protocol'
import { startProxy, startRelay } from '@static/relay'
import { Agent, type Wire } from '../agent/agent.ts'
import { connectGrpc, type GrpcClient } from '../agent/grpc-client.ts'
import { certificates } from '../certificates/authority.ts'
import { makeKey } from '../agent/key.ts'
import { quietPort } from '../ports.ts'
import { grpcWire, quicWire } from '../agent/wires.ts'
import { FakeApi } from './api.ts'

/** How agents connect to the relay; `mixed` alternates between the three. */
export const WAYS = ['quic', 'grpc', 'proxy', 'mixed'] as const
export type Way = (typeof WAYS)[number]

export interface TestRelay {
  readonly api: FakeApi
  readonly directory: string
  readonly ca: string
  /** The path of the authority's certificate. */
  readonly caFile: string
  readonly grpcPort: number
  readonly quicPorts: readonly number[]
  /** The port of files; 0 if it takes none. */
  readonly filesPort: number
  /** That of the proxy in front of it. */
  readonly proxyFilesPort: number
  /** The gRPC port that agents reach in a way of connecting: that of the relay, or that of the proxy. */
  grpcPortOf(way: Exclude<Way, 'mixed'>): number
  /** A wire to the relay, in its default way. */
  wire(): Wire
  /** A wire to the relay, in the given way. */
  by(way: Exclude<Way, 'mixed'>): Wire
  /** A gRPC connection to the relay, or to the proxy. */
  grpc(way: 'grpc' | 'proxy'): Promise<GrpcClient>
  /** Restarts the relay on the same data and ports. */
  restart(): Promise<void>
  /** Gives the relay a new certificate. */
  renew(): Promise<void>
  close(): Promise<void>
}

/** A healthy relay logs nothing above `warn`. */
const LOG = { write: (line: string): void => void process.stderr.write(line), pretty: false, level: 'error' } as const

export interface TestRelayOptions {
  /** Default: a new one. */
  api?: FakeApi
  settings?: object
  guests?: boolean
  endpoints?: number
  database?: string
  keyFile?: string
  nats?: { readonly servers: readonly string[]; readonly ca: string }
  traffic?: TrafficRange
  now?: () => number
  monotonic?: () => number
  /** Whether it takes files, in its directory. */
  files?: boolean
  /** Receives the relay's log from `warn` on, instead of stderr. */
  log?: (line: string) => void
}

/** Starts a relay, with frequent pings by default. */
export async function startTestRelay(way: Way, options: TestRelayOptions = {}): Promise<TestRelay> {
  const directory = await mkdtemp(join(tmpdir(), 'static-relay-'))
  const { authority, named: certificate } = await certificates()
  const ca = authority.cert
  const { api = new FakeApi(Date.now), nats } = options
  let filesPort = 0
  const start = (grpcPort: number, quicPort: number): ReturnType<typeof startRelay> =>
    startRelay({
      name: 'localhost',
      database: options.database ?? join(directory, 'relay.sqlite'),
      keyFile: options.keyFile ?? join(directory, 'relay.key'),
      nats,
      host: 'localhost',
      grpcPort,
      quicPort,
      quicEndpoints: options.endpoints ?? 1,
      certificate,
      proxyCa: ca,
      guests: options.guests ?? true,
      traffic: options.traffic,
      now: options.now,
      monotonic: options.monotonic,
      api,
      files: options.files === true ? { port: filesPort, store: join(directory, 'files') } : undefined,
      settings: { session: { pingMs: 1000, pongMs: 1000 }, ...options.settings },
      log: options.log === undefined ? LOG : { ...LOG, write: options.log, level: 'warn' },
    })
  // It may be restarted on the same ports.
  let relay = await start(await quietPort(), options.endpoints === undefined ? await quietPort() : 0)
  const { grpcPort, quicPorts } = relay
  filesPort = relay.filesPort ?? 0
  const [quicPort = 0] = quicPorts
  const needsProxy = way === 'proxy' || way === 'mixed'
  const proxy = needsProxy ? await startTestProxy(quicPort, filesPort) : undefined
  const wires: Record<Exclude<Way, 'mixed'>, () => Wire> = {
    quic: () => quicWire({ port: quicPort, ca }),
    grpc: () => grpcWire({ port: grpcPort, ca }),
    proxy: () => grpcWire({ port: grpcPortOf('proxy'), ca }),
  }
  const grpcPortOf = (kind: Exclude<Way, 'mixed'>): number => (kind === 'proxy' ? (proxy?.grpcPort ?? 0) : grpcPort)
  const kinds = ['quic', 'grpc', 'proxy'] as const
  let turn = 0
  return {
    api,
    directory,
    ca,
    caFile: authority.path,
    grpcPort,
    quicPorts,
    filesPort,
    proxyFilesPort: proxy?.filesPort ?? 0,
    grpcPortOf,
    wire: () => {
      turn++
      return wires[way === 'mixed' ? (kinds[turn % 3] ?? 'quic') : way]()
    },
    by: (kind) => wires[kind](),
    grpc: (kind) => connectGrpc({ host: 'localhost', port: grpcPortOf(kind), ca }),
    restart: async () => {
      await relay.close()
      relay = await start(grpcPort, quicPort)
      if (proxy) await untilServed(wires.proxy())
    },
    renew: async () => relay.renew(await authority.issue(['localhost'])),
    close: async () => {
      await proxy?.close()
      await relay.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/** A proxy that has lost its relay pauses before it dials again, and refuses agents until then. */
async function untilServed(wire: Wire): Promise<void> {
  for (let left = 1200; ; left--) {
    const agent = await Agent.dial(wire, makeKey())
    try {
      await agent.request('getChallenge', { revision: REVISION })
      return
    } catch (error) {
      if (left === 1) throw error
      await wait(50)
    } finally {
      agent.close()
    }
  }
}

/** Starts a proxy in front of the relay that listens on these ports; 0 if it takes no files. */
async function startTestProxy(quicPort: number, filesPort: number): ReturnType<typeof startProxy> {
  const { authority, named: certificate, client: clientCertificate } = await certificates()
  return startProxy({
    name: 'localhost',
    host: 'localhost',
    grpcPort: 0,
    certificate,
    relay: { addresses: [{ host: 'localhost', port: quicPort }], ca: authority.cert, clientCertificate },
    files: filesPort === 0 ? undefined : { port: 0, relay: [{ host: 'localhost', port: filesPort }] },
    log: LOG,
  })
}
