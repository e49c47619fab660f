/** Flags of the commands that run a relay. */
import { type Command, Option } from 'commander'
import { ALL_TRAFFIC, TRAFFIC_PROFILES, type TrafficProfileName } from '@static/protocol'
import { portNumber, smallCount, type StateFlags } from './flags.ts'

/** What `up` and `relay` have in common. */
export interface RelayFlags extends StateFlags {
  readonly grpcPort: number
  readonly quicPort: number
  readonly quicEndpoints: number
  readonly relaySettings?: string
  readonly proxyCa?: string
  readonly origin?: readonly string[]
  readonly guests: boolean
  readonly trafficFloor: TrafficProfileName
  readonly trafficCeiling: TrafficProfileName
}

/** Adds the flags above to a command. */
export function addRelayFlags(command: Command): Command {
  return command
    .option('--grpc-port <port>', 'TCP port of the relay: gRPC and health', portNumber, 5000)
    .option('--quic-port <port>', 'UDP port of the relay: QUIC', portNumber, 4433)
    .option('--quic-endpoints <count>', 'QUIC endpoints, on consecutive ports', smallCount, 1)
    .option('--relay-settings <file>', 'JSON file with limits and other numbers of the relay to change')
    .option('--proxy-ca <file>', 'authority whose client certificates stand-alone proxies show, PEM')
    .option('--origin <origin...>', 'origins whose pages may call the relay from a browser')
    .option('--no-guests', 'turn away agents that have no API key')
    .addOption(
      new Option('--traffic-floor <profile>', 'the least traffic protection that agents may ask for')
        .choices(TRAFFIC_PROFILES)
        .default(ALL_TRAFFIC.floor),
    )
    .addOption(
      new Option('--traffic-ceiling <profile>', 'the most traffic protection that agents may ask for')
        .choices(TRAFFIC_PROFILES)
        .default(ALL_TRAFFIC.ceiling),
    )
}
