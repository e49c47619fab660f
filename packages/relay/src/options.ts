/** Options for starting a relay. */
import type { LogOptions } from '@static/node/logger'
import type { TrafficRange } from '@static/protocol'
import type { ApiAccess } from './api/client.ts'
import type { NatsOptions } from './bus/nats.ts'
import type {
  Certificate,
  DeletionSource,
  OverviewSink,
  QuotaSource,
  Retention,
  Store,
  StoreListener,
  Time,
} from './ports.ts'

/** An API in the same process. */
export interface LocalApi extends QuotaSource, OverviewSink, DeletionSource {
  /** The public keys of its tokens, as in its JWKS document. */
  keys(): Promise<{ readonly keys: readonly object[] }>
}

/** Opens a store; `onDeath` is called when it becomes unusable. */
export type OpenStore = (
  options: { readonly retention: Retention; readonly onDeath: (error: unknown) => void },
  listener: StoreListener,
) => Promise<Store>

/** How to reach NATS. */
export type NatsAccess = Omit<NatsOptions, 'onState'>

/** A bucket of an S3 server, and how to reach it. */
export interface S3Access {
  /** `https://name[:port]`; the bucket is the first part of the path. */
  readonly endpoint: string
  readonly region: string
  readonly bucket: string
  /** The start of the names of all objects, without a slash at its end; may be empty. */
  readonly prefix: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
  /** CA of its certificate, PEM. Default: the system's. */
  readonly ca?: string | undefined
  /** A directory of this node for bodies on their way there. */
  readonly spool: string
}

/** Files at this relay. */
export interface FilesOptions {
  /** 0 picks a free port. */
  readonly port: number
  /** `https://name:port`, which agents use in place of this host and that port. */
  readonly url?: string | undefined
  /** A directory or a bucket; if several nodes share a database, one that they share as well. */
  readonly store: string | S3Access
}

export interface RelayOptions {
  /** The name by which agents know it: the server name in its certificate, the same on all nodes of a deployment. */
  readonly name: string
  /** Path of a SQLite file, the URL of a PostgreSQL database that all nodes share, or a function that opens a store. */
  readonly database: string | OpenStore
  /** The NATS servers that connect the nodes sharing the database; without them, news from other nodes comes later. */
  readonly nats?: NatsAccess | undefined
  /**
   * Path of `relay.key`, which all nodes of a deployment share. Required with PostgreSQL; created for a new database.
   */
  readonly keyFile?: string | undefined
  readonly host: string
  /** Ports; 0 picks free ones. */
  readonly grpcPort: number
  readonly quicPort: number
  /**
   * Number of QUIC endpoints, on consecutive ports. Plan one for every 1,000 sessions. Default: one for every two
   * cores, as far as the ports after the first are free.
   */
  readonly quicEndpoints?: number | undefined
  /** The port of files, and where their bytes are. Without it, agents get `files_unavailable`. */
  readonly files?: FilesOptions | undefined
  /** Load balancers (addresses, networks) that must announce their clients on the TCP port with the PROXY protocol. */
  readonly proxyProtocolFrom?: readonly string[] | undefined
  readonly certificate: Certificate
  /**
   * Separate certificate for the QUIC port, and for clients of the TCP port that send a server name: BoringSSL, which
   * QUIC and many gRPC clients use, rejects IP addresses in a certificate whose CA has name constraints.
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
  /** Token that lets other machines read /metrics. */
  readonly metricsToken?: string | undefined
  /** Overrides of the defaults; see `Settings`. */
  readonly settings?: unknown
  readonly log: LogOptions
  /** The wall clock. Default: the system's. */
  readonly now?: (() => Time) | undefined
  /** Milliseconds of a monotonic clock. Default: the system's. */
  readonly monotonic?: (() => Time) | undefined
  /** Called when the relay cannot continue and must be restarted. */
  readonly onFatal?: ((error: unknown) => void) | undefined
}
