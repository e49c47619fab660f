/** `static up`: the whole system in one process, on SQLite, with its own certificate authority. */
import { join } from 'node:path'
import { Command } from 'commander'
import type { Api } from '@static/api'
import type { LocalApi, RunningRelay } from '@static/relay'
import { serverCertificate } from '../authority.ts'
import { DEFAULT_API_URL, defaultRelay } from '../account/account.ts'
import { apiOptionsFrom } from '../server/api-options.ts'
import { type Certificate, givenCertificate } from '../server/certificate.ts'
import { defaultDataDirectory, ensurePrivateDirectory } from '../server/data-dir.ts'
import { addApiServerFlags, addStateFlags, type ApiServerFlags } from '../server/flags.ts'
import { textOf } from '../server/input-files.ts'
import { addRelayFlags, type RelayFlags } from '../server/relay-flags.ts'
import { relayOptionsFrom } from '../server/relay-options.ts'
import { runUntilStopped } from '../server/run-until-stopped.ts'
import { examples } from '../terminal/examples.ts'
import { commandLine } from '../terminal/output.ts'

type Flags = ApiServerFlags & RelayFlags

export function upCommand(): Command {
  return addRelayFlags(addApiServerFlags(addStateFlags(new Command('up'))))
    .addHelpText('after', examples('static up', 'static up --data-dir ./data --api-port 9443'))
    .action(up)
}

async function up(flags: Flags): Promise<void> {
  ensurePrivateDirectory(flags.dataDir)
  const certificate = async (): Promise<Certificate> =>
    (await givenCertificate(flags)) ?? (await serverCertificate(flags.dataDir, namesOf(flags)))
  const namedCertificate = async (): Promise<Certificate> =>
    (await givenCertificate(flags)) ??
    (await serverCertificate(flags.dataDir, namesOf(flags), { file: 'quic', addresses: false }))
  const ca = flags.cert === undefined ? join(flags.dataDir, 'ca.pem') : undefined
  // First, because loading the servers takes longest: what is wrong with the options shows at once.
  const [options, relayOptions, first] = await Promise.all([
    apiOptionsFrom(flags),
    relayOptionsFrom(flags),
    certificate(),
  ])
  const [{ startApi }, { startRelay }] = await Promise.all([import('@static/api'), import('@static/relay')])
  // The API starts first and reports the readiness of the relay once that runs.
  let relayIsReady = (): boolean => false
  const database = join(flags.dataDir, 'api.sqlite')
  const api = await startApi({ ...options, database, certificate: first, relayIsReady: () => relayIsReady() })
  let relay: RunningRelay
  try {
    relay = await startRelay({
      ...relayOptions,
      certificate: first,
      namedCertificate: await namedCertificate(),
      // Proxies get their certificates from the same authority: `static admin proxy-certificate`.
      proxyCa: await textOf(flags.proxyCa ?? ca),
      api: localApi(api),
      metricsToken: options.metricsToken,
      log: options.log,
    })
  } catch (error) {
    await api.close()
    throw error
  }
  relayIsReady = () => relay.isReady()
  // Servers close in reverse order: the relay first, because it returns its unused quota to the API.
  const renewRelay = async (fresh: Certificate): Promise<void> => relay.renew(fresh, await namedCertificate())
  runUntilStopped([api, { renew: renewRelay, close: () => relay.close() }], certificate, [flags.cert, flags.key])
  const { name } = relayOptions
  const addresses = {
    api_url: api.url,
    console_url: `${api.url}/console`,
    relay_grpc: `https://${name}:${relay.grpcPort}`,
    relay_quic: relay.quicPorts.map((port) => `quic://${name}:${port}`),
  }
  process.stdout.write(
    flags.json
      ? `${JSON.stringify({ ready: true, ...addresses, internal_url: api.internalUrl, ca, data_dir: flags.dataDir })}\n`
      : welcome(addresses, ca, flags.dataDir),
  )
}

/** The API in this process, as the relay calls it. */
function localApi({ service }: Api): LocalApi {
  return {
    keys: () => Promise.resolve(service.ring.jwks()),
    lease: ({ id, mode }, wanted) => service.leases.grant(id, mode, wanted),
    settle: (lease, spent, final, keys) => service.leases.settle(lease, spent, final, keys),
    blocked: (accounts) => service.leases.blocked(accounts),
    watched: (relay) => Promise.resolve(service.overviews.watched(relay)),
    report: (account, overview) => Promise.resolve(service.overviews.report(account, overview)),
  }
}

/** The names that the certificate must cover in addition to the loopback names. */
function namesOf({ host, name }: Flags): string[] {
  const bare = name?.replace(/:\d+$/, '')
  const wildcard = host === '0.0.0.0' || host === '::'
  return [...(wildcard ? [] : [host]), ...(bare === undefined ? [] : [bare])]
}

interface Addresses {
  readonly api_url: string
  readonly console_url: string
  readonly relay_grpc: string
  readonly relay_quic: readonly string[]
}

function welcome(addresses: Addresses, ca: string | undefined, dataDir: string): string {
  const { api_url: url, console_url: page, relay_grpc: grpc, relay_quic: quic } = addresses
  return `
Static is running. Press Ctrl-C to stop it; all data is in ${dataDir}.

  API      ${url}
  console  ${page}
  docs     ${url}/docs
  relay    ${[...quic, grpc].join('  ')}
${ca === undefined ? '' : `  CA       ${ca}\n`}
Next, in another terminal:

  ${commandLine('signup')}${signupFlags(addresses, ca, dataDir)}
  ${commandLine('channel create acme/support/routing')}
  ${commandLine('channel listen acme/support/routing')}

ready
`
}

/** The flags that `static signup` needs when this server does not use the defaults. */
function signupFlags({ api_url: url, relay_quic: quic }: Addresses, ca: string | undefined, dataDir: string): string {
  const relay = quic[0] ?? ''
  const isUsualPlace = dataDir === defaultDataDirectory() && new URL(url).hostname === 'localhost'
  return [
    ...(url === DEFAULT_API_URL ? [] : [` --api-url ${url}`]),
    ...(relay === defaultRelay(url) ? [] : [` --relay ${relay}`]),
    ...(ca === undefined || isUsualPlace ? [] : [` --ca ${ca}`]),
  ].join('')
}
