/** `static proxy`: accepts gRPC agents and forwards them to a relay over QUIC. */
import { Command, InvalidArgumentError } from 'commander'
import { StaticError } from '@static/protocol'
import { givenCertificate } from '../server/certificate.ts'
import { addServeFlags, portNumber, type ServeFlags, smallCount } from '../server/flags.ts'
import { readText } from '../server/input-files.ts'
import { logOf } from '../server/log-options.ts'
import { FILES_PORT, filesUrl } from '../server/relay-flags.ts'
import { relayName } from '../server/relay-options.ts'
import { runUntilStopped } from '../server/run-until-stopped.ts'

interface HostPort {
  readonly host: string
  readonly port: number
}

interface Flags extends ServeFlags {
  readonly grpcPort: number
  readonly relay: string
  readonly relayCa: string
  readonly clientCert: string
  readonly clientKey: string
  readonly connections: number
  readonly origin?: readonly string[]
  readonly files: boolean
  readonly filesPort: number
  readonly filesUrl?: string
  readonly relayFiles?: readonly HostPort[]
}

export function proxyCommand(): Command {
  return addServeFlags(new Command('proxy'))
    .option('--grpc-port <port>', 'TCP port for agents', portNumber, 5000)
    .requiredOption('--relay <url>', 'relay to forward to, quic://host:port; separate several nodes with commas')
    .requiredOption('--relay-ca <file>', "CA of the relay's certificate, PEM")
    .requiredOption('--client-cert <file>', 'client certificate for the relay, signed by its --proxy-ca, PEM')
    .requiredOption('--client-key <file>', 'private key of the client certificate, PEM')
    .option('--connections <count>', 'number of QUIC connections shared by all agents', smallCount, 2)
    .option('--files-port <port>', 'TCP port for the parts of files', portNumber, FILES_PORT)
    .option('--files-url <url>', 'where agents reach that port instead, such as a load balancer', filesUrl)
    .option(
      '--relay-files <addresses>',
      `ports of files of the relay, host:port with commas (default: the hosts of --relay, port ${FILES_PORT})`,
      hostPorts,
    )
    .option('--no-files', 'forward no files')
    .option('--origin <origin...>', 'web origins allowed to connect from a browser')
    .addHelpText(
      'after',
      '\nExample:\n  $ static proxy --name relay.example.com --cert chain.pem --key key.pem \\\n      --relay quic://10.0.0.7:4433 --relay-ca ca.pem --client-cert proxy.pem --client-key proxy.key',
    )
    .action(proxy)
}

async function proxy(flags: Flags): Promise<void> {
  const certificate = await givenCertificate(flags)
  if (!certificate)
    throw StaticError.of(
      'invalid_request',
      "--cert and --key are required. The certificate must be valid for the relay's name.",
    )
  const { startProxy } = await import('@static/relay')
  const name = relayName(flags)
  const addresses = relayAddresses(flags.relay)
  const filesOf = flags.relayFiles ?? addresses.map(({ host }) => ({ host, port: FILES_PORT }))
  const running = await startProxy({
    name,
    host: flags.host,
    grpcPort: flags.grpcPort,
    proxyProtocolFrom: flags.proxyProtocolFrom,
    certificate,
    relay: {
      addresses,
      ca: await readText(flags.relayCa),
      clientCertificate: {
        cert: await readText(flags.clientCert),
        key: await readText(flags.clientKey),
      },
    },
    files: flags.files ? { port: flags.filesPort, url: flags.filesUrl, relay: filesOf } : undefined,
    connections: flags.connections,
    origins: flags.origin,
    log: logOf(flags),
  })
  runUntilStopped([running], () => givenCertificate(flags), [flags.cert, flags.key])
  const { grpcPort, filesPort } = running
  process.stdout.write(
    flags.json
      ? `${JSON.stringify({ ready: true, name, grpc_port: grpcPort, files_port: filesPort })}\n`
      : `proxy  https://${name}:${grpcPort}  to  ${flags.relay}\nready\n`,
  )
}

function hostPorts(text: string): readonly HostPort[] {
  return text.split(',').map((part) => {
    const url = URL.parse(`https://${part.trim()}`)
    if (!url || url.port === '' || url.host !== part.trim()) {
      throw new InvalidArgumentError('Expected host:port, or several with commas.')
    }
    return { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port) }
  })
}

function relayAddresses(text: string): readonly HostPort[] {
  return text.split(',').map((part) => {
    const url = URL.parse(part.trim())
    if (url?.protocol !== 'quic:' || url.port === '') {
      throw StaticError.of(
        'invalid_request',
        `--relay is ${JSON.stringify(text)}. Expected a URL such as quic://relay.example.com:4433, or several with commas.`,
      )
    }
    return { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port) }
  })
}
