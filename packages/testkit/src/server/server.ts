/** The servers of `static` as an operator starts them: `up`, `api`, `relay` and `proxy`. */
import { join } from 'node:path'
import { type Ending, failCommand, type Ready, startCommand } from './process.ts'
import type { Workspace } from './workspace.ts'

/** How to start a server. */
export interface ServerOptions {
  readonly workspace: Workspace
  readonly dataDir: string
  readonly command?: 'api' | 'up'
  /** `postgres://…`; a SQLite file in the data directory by default. */
  readonly database?: string | undefined
  readonly settings?: unknown
  /** Opens the listener for relay nodes as well. */
  readonly internal?: boolean
  readonly logLevel?: 'debug' | 'info' | 'silent'
  /** Writes the log to this file instead of keeping it in memory. */
  readonly logFile?: string
  readonly port?: number
  /** The port of the listener for relay nodes. */
  readonly internalPort?: number
  /** The relay of `up`. */
  readonly relay?: RelayFlags
  /** Flags of Node itself. */
  readonly nodeFlags?: readonly string[]
  /** The command that starts `static`; the one in the checkout by default. */
  readonly program?: readonly string[]
}

/** Options shared by the relay of `up` and a stand-alone relay. */
export interface RelayFlags {
  /** Free ports by default. */
  readonly grpcPort?: number
  readonly quicPort?: number
  /** Without it, the relay takes no files. */
  readonly filesPort?: number
  readonly settings?: unknown
  readonly origins?: readonly string[]
}

/** The addresses of a relay. */
export interface RelayPorts {
  readonly grpcPort: number
  readonly quicPort: number
}

/** A running server. */
export interface Server extends AsyncDisposable {
  readonly pid: number
  readonly url: string
  readonly internalUrl: string | undefined
  /** The relay of `up`. */
  readonly relay: RelayPorts
  /** From the start of the process to its ready line. */
  readonly readyMs: number
  /** Its output on stderr so far. */
  errors(): string
  /** Sends a signal and waits for the exit. */
  end(signal: NodeJS.Signals): Promise<Ending>
}

interface ServerLine {
  readonly api_url: string
  readonly internal_url?: string
  readonly relay_grpc?: string
  readonly relay_quic?: readonly string[]
}

/** Starts `static api` (or `up`) and waits until it is ready. Rejects with its output if it exits before that. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { ready, ...running } = await startCommand<ServerLine>(serverWords(options), commandOptions(options))
  const { api_url: url, internal_url: internalUrl, relay_grpc: grpc, relay_quic: quic } = ready
  return { ...running, url, internalUrl, relay: { grpcPort: portOf(grpc), quicPort: portOf(quic?.[0]) } }
}

/** Starts a server that is expected to fail; returns its exit code and output. */
export function failToStart(options: ServerOptions): Promise<Ending & { errors: string }> {
  return failCommand(serverWords(options), commandOptions(options))
}

/** How to start a stand-alone relay. */
export interface RelayProcessOptions extends RelayFlags {
  readonly workspace: Workspace
  readonly dataDir: string
  readonly api: Pick<Server, 'url' | 'internalUrl'>
  /** The file with the credential of relay nodes. */
  readonly credential: string
}

/** A stand-alone relay. */
export type RelayProcess = Ready<unknown> & RelayPorts

/** Starts `static relay` and waits until it is ready. */
export async function startRelayProcess(options: RelayProcessOptions): Promise<RelayProcess> {
  interface Line {
    readonly grpc_port: number
    readonly quic_ports: readonly number[]
  }
  const started = await startCommand<Line>(relayWords(options), { env: own(options.workspace) })
  const { grpc_port: grpcPort, quic_ports: quicPorts } = started.ready
  return { ...started, grpcPort, quicPort: quicPorts[0] ?? 0 }
}

/** The arguments of `static relay`. */
export function relayWords(options: RelayProcessOptions): string[] {
  const { workspace, dataDir, api, credential } = options
  const { nameCertFile: cert, nameKeyFile: key, caFile } = workspace
  const flags = {
    host: 'localhost',
    'data-dir': dataDir,
    cert,
    key,
    'proxy-ca': caFile,
    'api-url': api.url,
    'api-internal-url': api.internalUrl,
    'api-ca': caFile,
    credential,
  }
  return ['relay', '--json', ...words(flags), ...relayFlags(workspace, dataDir, options)]
}

/** How to start a stand-alone proxy. */
export interface ProxyProcessOptions {
  readonly workspace: Workspace
  /** The relay's QUIC port. */
  readonly quicPort: number
  readonly client: { readonly cert: string; readonly key: string }
  readonly grpcPort?: number
}

/** A stand-alone proxy. */
export type ProxyProcess = Ready<unknown> & Pick<RelayPorts, 'grpcPort'>

/** Starts `static proxy` and waits until it is ready. */
export async function startProxyProcess(options: ProxyProcessOptions): Promise<ProxyProcess> {
  const started = await startCommand<{ readonly grpc_port: number }>(proxyWords(options), {
    env: own(options.workspace),
  })
  return { ...started, grpcPort: started.ready.grpc_port }
}

/** The arguments of `static proxy`. */
export function proxyWords({ workspace, quicPort, client, grpcPort = 0 }: ProxyProcessOptions): string[] {
  const { nameCertFile: cert, nameKeyFile: key, caFile } = workspace
  const relay = `quic://localhost:${quicPort}`
  const shown = { 'client-cert': client.cert, 'client-key': client.key }
  const flags = { host: 'localhost', 'grpc-port': grpcPort, cert, key, relay, 'relay-ca': caFile, ...shown }
  return ['proxy', '--json', '--no-files', ...words(flags)]
}

function serverWords(options: ServerOptions): string[] {
  const { workspace, dataDir, command = 'api', settings, logLevel = 'info', port = 0, internalPort = 0 } = options
  const flags = {
    host: '127.0.0.1',
    'api-port': port,
    'data-dir': dataDir,
    'log-level': logLevel,
    'internal-port': options.internal ? internalPort : undefined,
    settings: settingsFile(dataDir, settings, workspace),
    cert: command === 'api' ? workspace.certFile : undefined,
    key: command === 'api' ? workspace.keyFile : undefined,
  }
  const relay = command === 'up' ? relayFlags(workspace, dataDir, options.relay ?? {}) : []
  return [command, '--json', ...words(flags), ...relay]
}

function relayFlags(workspace: Workspace, dataDir: string, flags: RelayFlags): string[] {
  const { grpcPort = 0, quicPort = 0, filesPort, settings, origins = [] } = flags
  const file = settingsFile(dataDir, settings, workspace)
  const given = words({
    'grpc-port': grpcPort,
    'quic-port': quicPort,
    'files-port': filesPort,
    'relay-settings': file,
  })
  return [
    ...given,
    ...(filesPort === undefined ? ['--no-files'] : []),
    ...origins.flatMap((origin) => ['--origin', origin]),
  ]
}

/** Flags as arguments; those without a value are left out. */
function words(flags: Readonly<Record<string, string | number | undefined>>): string[] {
  return Object.entries(flags).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, String(value)]))
}

/** Files left behind by a killed process are removed with the workspace. */
function own({ path }: Workspace): { readonly TMPDIR: string } {
  return { TMPDIR: path }
}

function commandOptions({
  logFile,
  database,
  nodeFlags,
  program,
  workspace,
}: ServerOptions): Parameters<typeof startCommand>[1] {
  return { logFile, nodeFlags, program, env: { STATIC_DATABASE: database, ...own(workspace) } }
}

let files = 0
function settingsFile(dataDir: string, settings: unknown, workspace: Workspace): string | undefined {
  if (settings === undefined) return undefined
  return workspace.file(`settings-${join(dataDir).split('/').at(-1)}-${files++}.json`, JSON.stringify(settings))
}

function portOf(url: string | undefined): number {
  return url === undefined ? 0 : Number(new URL(url).port)
}
