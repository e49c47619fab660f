/** Flags of the commands that run a relay. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { ALL_TRAFFIC, TRAFFIC_PROFILES, type TrafficProfileName } from '@static/protocol'
import { type FileStore, fileStore } from './file-store.ts'
import { portNumber, smallCount, type StateFlags } from './flags.ts'

/** Flags shared by `up` and `relay`. */
export interface RelayFlags extends StateFlags {
  readonly grpcPort: number
  readonly quicPort: number
  readonly quicEndpoints?: number
  /** Whether the relay takes files. */
  readonly files: boolean
  readonly filesPort: number
  readonly filesUrl?: string
  readonly fileStore?: FileStore
  readonly relaySettings?: string
  readonly proxyCa?: string
  readonly origin?: readonly string[]
  readonly guests: boolean
  readonly trafficFloor: TrafficProfileName
  readonly trafficCeiling: TrafficProfileName
}

/** The usual port of files. */
export const FILES_PORT = 5010

/** Reads the value of `--files-url`. */
export function filesUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol === 'https:' && url.origin === text) return text
  throw new InvalidArgumentError('Expected an HTTPS address without a path, such as https://files.example.com.')
}

/** Adds the relay flags to a command. */
export function addRelayFlags(command: Command): Command {
  return command
    .option('--grpc-port <port>', 'TCP port of the relay, for gRPC and health checks', portNumber, 5000)
    .option('--quic-port <port>', 'UDP port of the relay, for QUIC', portNumber, 4433)
    .option(
      '--quic-endpoints <count>',
      'number of QUIC endpoints, on consecutive ports (default: one for every two cores)',
      smallCount,
    )
    .option('--files-port <port>', 'TCP port of the relay, for the parts of files', portNumber, FILES_PORT)
    .option('--files-url <url>', 'where agents reach that port instead, such as a load balancer', filesUrl)
    .option(
      '--file-store <place>',
      'directory of files, or s3://bucket/prefix, which nodes share (default: files in the data directory)',
      fileStore,
    )
    .option('--no-files', 'take no files')
    .option('--relay-settings <file>', 'JSON file with limits and other settings of the relay to change')
    .option('--proxy-ca <file>', 'CA of the client certificates of stand-alone proxies, PEM')
    .option('--origin <origin...>', 'web origins allowed to connect from a browser')
    .option('--no-guests', 'refuse agents without an API key')
    .addOption(
      new Option('--traffic-floor <profile>', 'weakest traffic profile that agents may choose')
        .choices(TRAFFIC_PROFILES)
        .default(ALL_TRAFFIC.floor),
    )
    .addOption(
      new Option('--traffic-ceiling <profile>', 'strongest traffic profile that agents may choose')
        .choices(TRAFFIC_PROFILES)
        .default(ALL_TRAFFIC.ceiling),
    )
}
