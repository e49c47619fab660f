/** Flags of the commands that run a server. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { SIGNUP_MODES, type SignupMode } from '@static/protocol'
import { defaultDataDirectory } from './data-dir.ts'

const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

/** Flags of every command that runs a server. */
export interface ServeFlags {
  readonly host: string
  readonly name?: string
  readonly cert?: string
  readonly key?: string
  readonly proxyProtocolFrom?: readonly string[]
  readonly logLevel: (typeof LOG_LEVELS)[number]
  readonly json?: boolean
}

/** Flags of the servers that store data. */
export interface StateFlags extends ServeFlags {
  readonly dataDir: string
  readonly metricsToken?: string
  readonly logClients?: boolean
}

/** Flags of every command that runs the API. */
export interface ApiServerFlags extends StateFlags {
  readonly apiPort: number
  readonly internalPort?: number
  readonly internalHost: string
  readonly settings?: string
  readonly trustedProxy?: readonly string[]
  readonly signup: SignupMode
  readonly auditAddresses?: boolean
}

/** Adds the flags of every server to a command. */
export function addServeFlags(command: Command): Command {
  return command
    .option('--host <host>', 'address to listen on', 'localhost')
    .option('--name <name[:port]>', 'public name of this server (default: the host)')
    .option('--cert <file>', 'certificate chain, PEM')
    .option('--key <file>', 'private key of the certificate, PEM')
    .option(
      '--proxy-protocol-from <addresses>',
      'load balancers, by address or network and separated by commas, that announce clients by the PROXY protocol v2',
      (text: string) => text.split(',').map((part) => part.trim()),
    )
    .addOption(new Option('--log-level <level>', 'least severe level to log').choices(LOG_LEVELS).default('info'))
    .option('--json', 'print one line of JSON when ready')
}

/** Adds the flags of servers that store data. */
export function addStateFlags(command: Command): Command {
  return addServeFlags(command)
    .option('--data-dir <dir>', 'directory for all data', defaultDataDirectory())
    .option('--metrics-token <file>', 'file with a token that allows other machines to read /metrics')
    .option('--log-clients', 'log the addresses and accounts of clients, which are personal data')
}

/** Adds the flags of the API to a command. */
export function addApiServerFlags(command: Command): Command {
  return command
    .option('--api-port <port>', 'port of the API', portNumber, 8443)
    .addOption(
      new Option('--internal-port [port]', 'also open the internal listener for relay nodes')
        .argParser(portNumber)
        .preset('8444'),
    )
    .option('--internal-host <host>', 'address of the internal listener', 'localhost')
    .option('--settings <file>', 'JSON file with limits and other settings of the API to change; see SPEC.md')
    .option('--trusted-proxy <address...>', 'proxies trusted to report the client address')
    .addOption(
      new Option('--signup <mode>', 'who may sign up: everyone, those with an invite of `static admin`, or no one')
        .choices(SIGNUP_MODES)
        .default('open' satisfies SignupMode),
    )
    .option('--audit-addresses', 'record the addresses of clients, which are personal data, in the audit log')
}

export function portNumber(text: string): number {
  const port = Number(text)
  if (!/^\d{1,5}$/.test(text) || port > 65_535)
    throw new InvalidArgumentError('Expected a port number from 0 to 65535.')
  return port
}

/** Parses a number from 1 to 64. */
export function smallCount(text: string): number {
  const count = Number(text)
  if (!/^\d{1,2}$/.test(text) || count < 1 || count > 64)
    throw new InvalidArgumentError('Expected a number from 1 to 64.')
  return count
}
