/** `static proxy`: gRPC agents in front of a relay's QUIC port. */
import { Command } from 'commander'
import { StaticError } from '@static/protocol'
import { givenCertificate } from '../server/certificate.ts'
import { addServeFlags, portNumber, type ServeFlags, smallCount } from '../server/flags.ts'
import { readText } from '../server/input-files.ts'
import { logOf } from '../server/log-options.ts'
import { relayName } from '../server/relay-options.ts'
import { runUntilStopped } from '../server/run-until-stopped.ts'

interface Flags extends ServeFlags {
  readonly grpcPort: number
  readonly relay: string
  readonly relayCa: string
  readonly clientCert: string
  readonly clientKey: string
  readonly connections: number
  readonly origin?: readonly string[]
}

export function proxyCommand(): Command {
  return addServeFlags(new Command('proxy'))
    .description('run a proxy that takes gRPC agents to a relay over QUIC')
    .option('--grpc-port <port>', 'TCP port for agents', portNumber, 5000)
    .requiredOption('--relay <url>', 'the relay, quic://host:port')
    .requiredOption('--relay-ca <file>', "authority of the relay's certificate, PEM")
    .requiredOption('--client-cert <file>', 'certificate that the relay knows this proxy by (its --proxy-ca), PEM')
    .requiredOption('--client-key <file>', 'private key of that certificate, PEM')
    .option('--connections <count>', 'QUIC connections that carry all agents', smallCount, 2)
    .option('--origin <origin...>', 'origins whose pages may call from a browser')
    .addHelpText(
      'after',
      '\nExample:\n  $ static proxy --name relay.example.com --cert chain.pem --key key.pem \\\n      --relay quic://10.0.0.7:4433 --relay-ca ca.pem --client-cert proxy.pem --client-key proxy.key',
    )
    .action(proxy)
}

async function proxy(flags: Flags): Promise<void> {
  const certificate = await givenCertificate(flags)
  if (!certificate) throw StaticError.of('invalid_request', "Give --cert and --key: they must have the relay's name.")
  const { host, port } = relayAddress(flags.relay)
  const { startProxy } = await import('@static/relay')
  const name = relayName(flags)
  const running = await startProxy({
    name,
    host: flags.host,
    grpcPort: flags.grpcPort,
    certificate,
    relay: {
      host,
      port,
      ca: await readText(flags.relayCa),
      clientCertificate: {
        cert: await readText(flags.clientCert),
        key: await readText(flags.clientKey),
      },
    },
    connections: flags.connections,
    origins: flags.origin,
    log: logOf(flags),
  })
  runUntilStopped([running], () => givenCertificate(flags))
  const { grpcPort } = running
  process.stdout.write(
    flags.json
      ? `${JSON.stringify({ ready: true, name, grpc_port: grpcPort })}\n`
      : `proxy  https://${name}:${grpcPort}  to  ${flags.relay}\nready\n`,
  )
}

function relayAddress(text: string): { host: string; port: number } {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'quic:' || url.port === '') {
    throw StaticError.of('invalid_request', '--relay is an address like quic://relay.example.com:4433.')
  }
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port) }
}
