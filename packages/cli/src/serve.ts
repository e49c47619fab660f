/** What the commands that run a server share: flags, files, certificates, logs and the way they end. */
import { createPrivateKey, randomBytes, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { ApiOptions } from '@static/api'
import { readPrivateFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { bufferedWriter } from './buffered-writer.ts'
import { defaultDataDirectory, ensureSecretFile } from './data-dir.ts'

const RENEWAL_CHECK_MS = 3600_000
const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

/** A certificate and its key, PEM. */
export interface Certificate {
  readonly cert: string
  readonly key: string
}

/** Flags of every command that runs a server. */
export interface ServeFlags {
  readonly host: string
  readonly name?: string
  readonly cert?: string
  readonly key?: string
  readonly logLevel: (typeof LOG_LEVELS)[number]
  readonly json?: boolean
}

/** Flags of the servers that keep something. */
export interface StateFlags extends ServeFlags {
  readonly dataDir: string
  readonly metricsToken?: string
}

/** Flags of every command that runs the API. */
export interface ApiFlags extends StateFlags {
  readonly apiPort: number
  readonly internalPort?: number
  readonly settings?: string
  readonly trustedProxy?: readonly string[]
}

/** Adds the flags of every server to a command. */
export function addServeFlags(command: Command): Command {
  return command
    .option('--host <host>', 'address to listen on', 'localhost')
    .option('--name <name[:port]>', 'the name that users reach this server by (default: the host)')
    .option('--cert <file>', 'certificate chain, PEM')
    .option('--key <file>', 'private key of the certificate, PEM')
    .addOption(new Option('--log-level <level>', 'how much to log').choices(LOG_LEVELS).default('info'))
    .option('--json', 'print one line of JSON when ready')
}

/** Adds the flags of servers that keep something. */
export function addStateFlags(command: Command): Command {
  return addServeFlags(command)
    .option('--data-dir <dir>', 'where everything is kept', defaultDataDirectory())
    .option('--metrics-token <file>', 'file with a token that lets other machines read /metrics')
}

/** Adds the flags of the API to a command. */
export function addApiFlags(command: Command): Command {
  return command
    .option('--api-port <port>', 'port of the API', portNumber, 8443)
    .addOption(
      new Option('--internal-port [port]', 'also open the loopback listener for relay nodes')
        .argParser(portNumber)
        .preset('8444'),
    )
    .option('--settings <file>', 'JSON file with limits and other numbers of the API to change; SPEC.md lists them')
    .option('--trusted-proxy <address...>', 'proxies whose word on the client address is believed')
}

/** A port from a flag. */
export function portNumber(text: string): number {
  const port = Number(text)
  if (!/^\d{1,5}$/.test(text) || port > 65_535) throw new InvalidArgumentError('A port is a number from 0 to 65535.')
  return port
}

/** How many of something, from a flag. */
export function smallCount(text: string): number {
  const count = Number(text)
  if (!/^\d{1,2}$/.test(text) || count < 1 || count > 64) throw new InvalidArgumentError('A number from 1 to 64.')
  return count
}

/** The options of the API that follow from flags and from the secrets in the data directory. */
export async function apiOptionsFrom(flags: ApiFlags): Promise<Omit<ApiOptions, 'database' | 'certificate'>> {
  const secret = (): Buffer => Buffer.from(`${randomBytes(32).toString('hex')}\n`)
  const master = await ensureSecretFile(join(flags.dataDir, 'master.key'), secret)
  const masterKey = Buffer.from(master.toString().trim(), 'hex')
  if (masterKey.length !== 32) {
    throw StaticError.of('invalid_request', `${join(flags.dataDir, 'master.key')} must hold 64 hexadecimal digits.`)
  }
  const credential = (await ensureSecretFile(join(flags.dataDir, 'relay.credential'), secret)).toString().trim()
  if (credential.length < 32) {
    throw StaticError.of(
      'invalid_request',
      `${join(flags.dataDir, 'relay.credential')} must hold at least 32 characters.`,
    )
  }
  return {
    masterKey,
    host: flags.host,
    port: flags.apiPort,
    name: flags.name,
    internal:
      flags.internalPort === undefined ? undefined : { host: 'localhost', port: flags.internalPort, credential },
    metricsToken: await metricsTokenOf(flags),
    trustedProxies: flags.trustedProxy,
    console: dirname(fileURLToPath(import.meta.resolve('@static/console/dist/index.html'))),
    settings: await settingsOf(flags.settings),
    log: logOf(flags),
  }
}

/** How to log. */
export function logOf({ logLevel: level }: ServeFlags): ApiOptions['log'] {
  return { write: bufferedWriter(process.stderr), pretty: process.stderr.isTTY, level }
}

/** The token that lets others read the metrics. */
export async function metricsTokenOf({ metricsToken }: StateFlags): Promise<string | undefined> {
  return metricsToken === undefined ? undefined : readToken(metricsToken)
}

/** The numbers of a settings file. */
export async function settingsOf(path: string | undefined): Promise<unknown> {
  return path === undefined ? undefined : readJson(path)
}

/** The operator's own certificate, if both files are given. */
export async function givenCertificate({ cert, key }: ServeFlags): Promise<Certificate | undefined> {
  if (cert === undefined && key === undefined) return undefined
  if (cert === undefined || key === undefined) {
    throw StaticError.of('invalid_request', 'Give both --cert and --key, or neither.')
  }
  const given = { cert: await readText(cert), key: await readText(key) }
  const certificate = parsed(cert, 'certificate', () => new X509Certificate(given.cert))
  const privateKey = parsed(key, 'private key', () => createPrivateKey(given.key))
  if (!certificate.checkPrivateKey(privateKey)) {
    throw StaticError.of('invalid_request', `The certificate ${cert} and the key ${key} do not belong together.`)
  }
  return given
}

function parsed<Value>(path: string, what: string, parse: () => Value): Value {
  try {
    return parse()
  } catch (cause) {
    throw StaticError.of('invalid_request', `The file ${path} holds no ${what} in PEM.`, { cause })
  }
}

/** A server that runs. */
export interface Running {
  renew(certificate: Certificate): void | Promise<void>
  close(): Promise<void>
}

/** Keeps the certificate of running servers fresh and ends them, the last one first, when the process is asked to stop. */
export function runUntilStopped(
  servers: readonly Running[],
  certificate: () => Promise<Certificate | undefined>,
): void {
  const say = (error: unknown): void => {
    process.stderr.write(`static: the certificate was not renewed: ${StaticError.from(error).message}\n`)
  }
  const renew = async (): Promise<void> => {
    const fresh = await certificate()
    // Of a pair whose files are just being replaced nothing is taken; the next look finds it whole.
    if (fresh) for (const server of servers) await server.renew(fresh)
  }
  const renewal = setInterval(() => void renew().catch(say), RENEWAL_CHECK_MS)
  renewal.unref()
  let stopping = false
  const closeAll = async (): Promise<void> => {
    for (const server of servers.toReversed()) await server.close()
  }
  const stop = (): void => {
    // The second signal means it.
    if (stopping) process.exit(1)
    stopping = true
    clearInterval(renewal)
    closeAll().then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`static: ${StaticError.from(error).message}\n`)
        process.exit(1)
      },
    )
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
}

/** Ends a process whose server cannot go on: its supervisor starts it anew. */
export function endOnFatal(error: unknown): never {
  process.stderr.write(`static: the relay cannot go on: ${StaticError.from(error).message}\n`)
  process.exit(1)
}

/** A file of PEM or other text, if one is named. */
export async function textOf(path: string | undefined): Promise<string | undefined> {
  return path === undefined ? undefined : readText(path)
}

/** A secret of a file that nobody else may read. */
export async function secretOf(path: string): Promise<string> {
  return readToken(path)
}

async function readToken(path: string): Promise<string> {
  const token = readPrivateFile(path)?.toString().trim() ?? ''
  if (token === '') throw StaticError.of('invalid_request', `The file ${path} does not exist or is empty.`)
  return token
}

async function readJson(path: string): Promise<unknown> {
  const text = await readText(path)
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw StaticError.of('invalid_request', `${path} is not valid JSON.`, { cause })
  }
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw StaticError.of('invalid_request', `The file ${path} cannot be read.`, { cause })
  }
}
