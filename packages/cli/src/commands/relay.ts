/** `static relay`: only a relay, for an API that runs elsewhere. */
import { join } from 'node:path'
import { Command, InvalidArgumentError } from 'commander'
import { isPostgresUrl } from '@static/node/postgres-address'
import { StaticError } from '@static/protocol'
import type { NatsAccess } from '@static/relay'
import { ensurePrivateDirectory } from '../server/data-dir.ts'
import { relayDatabaseOf } from '../server/database.ts'
import { addStateFlags } from '../server/flags.ts'
import { givenCertificate } from '../server/certificate.ts'
import { metricsTokenOf, textOf } from '../server/input-files.ts'
import { logOf } from '../server/log-options.ts'
import { serveRelayControl } from '../server/relay-control.ts'
import { readCredential } from '../server/relay-credential.ts'
import { addRelayFlags, type RelayFlags } from '../server/relay-flags.ts'
import { relayOptionsFrom } from '../server/relay-options.ts'
import { runUntilStopped } from '../server/run-until-stopped.ts'
import { secretOf } from '../server/secret.ts'

const MAX_URLS = 16

interface Flags extends RelayFlags {
  readonly apiUrl: readonly string[]
  readonly apiInternalUrl: readonly string[]
  readonly apiCa?: string
  readonly credential?: string
  readonly database?: string
  readonly nats?: readonly string[]
  readonly natsCa?: string
  readonly natsCredentials?: string
}

export function relayCommand(): Command {
  return addRelayFlags(addStateFlags(new Command('relay')))
    .requiredOption('--api-url <url...>', 'public URL of the API that issues access tokens', httpsUrl)
    .requiredOption(
      '--api-internal-url <url...>',
      "URLs of the internal listeners of the API's nodes, used for quota; if one fails, the next is used",
      httpsUrl,
    )
    .option('--api-ca <file>', "CA of the API's certificate, PEM (default: the system's CAs)")
    .option(
      '--credential <file>',
      'file with the relay credential of the API (default: relay.credential in the data directory)',
    )
    .option(
      '--database <url>',
      'postgres://… that all relay nodes share; prefer STATIC_RELAY_DATABASE (default: relay.sqlite in the data directory)',
    )
    .option(
      '--nats <url...>',
      'NATS servers between relay nodes that share a database, nats:// or tls:// (default: STATIC_NATS, or the file in STATIC_NATS_FILE)',
    )
    .option('--nats-ca <file>', "CA of the NATS servers' certificates, PEM (default: the system's CAs)")
    .option('--nats-credentials <file>', 'NATS credentials file')
    .addHelpText(
      'after',
      '\nExample:\n  $ static relay --name relay.example.com --cert chain.pem --key key.pem \\\n      --api-url https://api.example.com --api-internal-url https://api.example.com:8444 --credential relay.credential',
    )
    .action(relay)
}

async function relay(flags: Flags): Promise<void> {
  ensurePrivateDirectory(flags.dataDir)
  const certificate = await givenCertificate(flags)
  if (!certificate) {
    throw StaticError.of(
      'invalid_request',
      '--cert and --key are required. Only `static up` creates its own certificate.',
    )
  }
  const options = await relayOptionsFrom(flags)
  const database = relayDatabaseOf(flags.database) ?? options.database
  const { startRelay } = await import('@static/relay')
  const running = await startRelay({
    ...options,
    database,
    // Other nodes could not fetch what is in the directory of one.
    files:
      typeof database === 'string' && isPostgresUrl(database) && flags.fileStore === undefined
        ? undefined
        : options.files,
    keyFile: join(flags.dataDir, 'relay.key'),
    certificate,
    proxyCa: await textOf(flags.proxyCa),
    nats: await natsOf(flags),
    api: {
      urls: flags.apiUrl,
      internalUrls: flags.apiInternalUrl,
      credential: await readCredential(flags.credential ?? join(flags.dataDir, 'relay.credential')),
      ca: await textOf(flags.apiCa),
    },
    metricsToken: await metricsTokenOf(flags),
    log: logOf(flags),
  })
  const control = await serveRelayControl(flags.dataDir, running)
  runUntilStopped([running, control], () => givenCertificate(flags), [flags.cert, flags.key])
  const { name } = options
  const { grpcPort, quicPorts, filesPort } = running
  process.stdout.write(
    flags.json
      ? `${JSON.stringify({ ready: true, name, grpc_port: grpcPort, quic_ports: quicPorts, files_port: filesPort })}\n`
      : `relay  https://${name}:${grpcPort}  ${quicPorts.map((port) => `quic://${name}:${port}`).join('  ')}\nready\n`,
  )
}

/** NATS from the flags or else the environment, which does not show passwords to other users. */
async function natsOf(flags: Flags): Promise<NatsAccess | undefined> {
  const servers =
    flags.nats ??
    secretOf('STATIC_NATS')
      ?.split(/[\s,]+/)
      .filter((url) => url !== '')
  if (servers === undefined) return undefined
  return { servers, ca: await textOf(flags.natsCa), credentials: flags.natsCredentials }
}

function httpsUrl(text: string, earlier: readonly string[] = []): readonly string[] {
  if (earlier.length === MAX_URLS) throw new InvalidArgumentError(`Expected at most ${MAX_URLS} URLs.`)
  if (URL.canParse(text) && new URL(text).protocol === 'https:') return [...earlier, text]
  throw new InvalidArgumentError('Expected an HTTPS URL such as https://api.example.com.')
}
