/** Flags of the commands that run a server. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { defaultDataDirectory } from './data-dir.ts'

const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

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
export interface ApiServerFlags extends StateFlags {
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
export function addApiServerFlags(command: Command): Command {
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
