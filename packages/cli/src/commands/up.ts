/** `static up`: the whole system in one process, on SQLite, with its own certificate authority. */
import { existsSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import { join } from 'node:path'
import { Command, InvalidArgumentError } from 'commander'
import type { Api } from '@static/api'
import type { ServerAnnouncement } from '@static/protocol'
import type { LocalApi, RunningRelay } from '@static/relay'
import { openAuthority, serverCertificate } from '../authority.ts'
import { DEFAULT_API_URL } from '../account/account.ts'
import { type AcmeFlags, acmeOptions, publicCertificate } from '../acme/public-certificate.ts'
import { apiOptionsFrom } from '../server/api-options.ts'
import { type Certificate, givenCertificate } from '../server/certificate.ts'
import { defaultDataDirectory, ensurePrivateDirectory } from '../server/data-dir.ts'
import { addApiServerFlags, addStateFlags, type ApiServerFlags, portNumber } from '../server/flags.ts'
import { textOf } from '../server/input-files.ts'
import { anyAddress, isWildcard, reachableAddresses } from '../server/interfaces.ts'
import { serveRelayControl } from '../server/relay-control.ts'
import { addRelayFlags, type RelayFlags } from '../server/relay-flags.ts'
import { relayOptionsFrom } from '../server/relay-options.ts'
import { runUntilStopped } from '../server/run-until-stopped.ts'
import { examples } from '../terminal/examples.ts'
import { commandLine, note } from '../terminal/output.ts'

type Flags = ApiServerFlags & RelayFlags & AcmeFlags
type RelayAnnouncement = Omit<ServerAnnouncement, 'signup'>

export function upCommand(): Command {
  return addRelayFlags(addApiServerFlags(addStateFlags(new Command('up'))))
    .option(
      '--acme <email>',
      "get a certificate for --name from Let's Encrypt, accepting its terms, and renew it; listens on all addresses unless --host says otherwise",
    )
    .option('--acme-directory <url>', 'directory of another ACME authority', acmeDirectory, LETS_ENCRYPT)
    .option('--acme-port <port>', 'port at which requests of the authority to port 80 arrive', portNumber, 80)
    .addHelpText(
      'after',
      examples(
        'static up',
        'static up --data-dir ./data --api-port 9443',
        'static up --name static.example.com --acme you@example.com',
      ),
    )
    .action((flags: Flags, command: Command) => {
      const isPublic = flags.acme !== undefined && command.getOptionValueSource('host') === 'default'
      return up(isPublic ? { ...flags, host: anyAddress() } : flags)
    })
}

const LETS_ENCRYPT = 'https://acme-v02.api.letsencrypt.org/directory'

function acmeDirectory(text: string): string {
  if (URL.canParse(text) && new URL(text).protocol === 'https:') return text
  throw new InvalidArgumentError(
    'Expected an HTTPS URL such as https://acme-staging-v02.api.letsencrypt.org/directory.',
  )
}

async function up(flags: Flags): Promise<void> {
  const acme = acmeOptions(flags, flags)
  ensurePrivateDirectory(flags.dataDir)
  const others = await certifiableAddresses(flags)
  const names = [...namesOf(flags), ...others]
  const certificate = async (): Promise<Certificate> =>
    (await givenCertificate(flags)) ??
    (acme === undefined ? await serverCertificate(flags.dataDir, names) : await publicCertificate(acme))
  /** For clients that name the host; of the local authority alone it is another one. */
  const namedCertificate = async (usual: Certificate): Promise<Certificate> =>
    ca === undefined ? usual : await serverCertificate(flags.dataDir, names, { file: 'quic', addresses: false })
  const ca = flags.cert === undefined && acme === undefined ? join(flags.dataDir, 'ca.pem') : undefined
  // First, because loading the servers takes longest, and wrong options should be reported at once.
  const [options, relayOptions, first] = await Promise.all([
    apiOptionsFrom({ ...flags, ...publicName(flags, others) }),
    relayOptionsFrom(flags),
    certificate(),
  ])
  const firstNamed = await namedCertificate(first)
  const [{ startApi }, { startRelay }] = await Promise.all([import('@static/api'), import('@static/relay')])
  // The API starts first and reports the readiness of the relay once that runs.
  let relayIsReady = (): boolean => false
  // A client that asks meanwhile waits: otherwise it would save an account without a relay.
  const announced = Promise.withResolvers<RelayAnnouncement>()
  const database = join(flags.dataDir, 'api.sqlite')
  const api = await startApi({
    ...options,
    database,
    certificate: first,
    namedCertificate: firstNamed,
    relayIsReady: () => relayIsReady(),
    relay: announced.promise,
  })
  let relay: RunningRelay
  try {
    relay = await startRelay({
      ...relayOptions,
      certificate: first,
      namedCertificate: firstNamed,
      // Proxies get their certificates from the same authority: `static admin proxy-certificate`.
      proxyCa: await textOf(flags.proxyCa ?? ca),
      api: localApi(api),
      metricsToken: options.metricsToken,
      log: options.log,
    })
  } catch (error) {
    announced.resolve({ relay: [] })
    await api.close()
    throw error
  }
  relayIsReady = () => relay.isReady()
  // Servers close in reverse order: the relay first, because it returns its unused quota to the API.
  const renew = async (fresh: Certificate): Promise<void> => {
    const named = await namedCertificate(fresh)
    api.renew(fresh, named)
    await relay.renew(fresh, named)
  }
  const control = await serveRelayControl(flags.dataDir, relay)
  const servers = [{ renew, close: () => api.close() }, { close: () => relay.close() }, control]
  runUntilStopped(servers, certificate, [flags.cert, flags.key])
  const { name } = relayOptions
  const host = publicName(flags, others).name ?? name
  const addresses = {
    api_url: api.url,
    console_url: `${api.url}/console`,
    relay_grpc: `https://${host}:${relay.grpcPort}`,
    relay_quic: relay.quicPorts.map((port) => `quic://${host}:${port}`),
    relay_files: relay.filesPort === undefined ? undefined : `https://${host}:${relay.filesPort}`,
    // Clients that dial an address must know the name in the relay's certificate.
    relay_name: host === name ? undefined : name,
    other_addresses: others.length > 1 ? others.slice(1) : undefined,
  }
  announced.resolve(announcementOf(addresses))
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
    deletions: (relay) => service.deletions.pending(relay),
    reportDeletion: (id, relay, deleted) => service.deletions.report(id, relay, deleted),
  }
}

/** The names that the certificate must cover in addition to the loopback names. */
function namesOf({ host, name }: Flags): string[] {
  const bare = name?.replace(/:\d+$/, '')
  return [...(isWildcard(host) ? [] : [host]), ...(bare === undefined ? [] : [bare])]
}

/**
 * For a server without a name that listens everywhere: the addresses at which others reach it. An existing authority
 * may sign only for the addresses of its first start.
 */
async function certifiableAddresses({ host, name, cert, dataDir }: Flags): Promise<readonly string[]> {
  if (!isWildcard(host) || name !== undefined || cert !== undefined) return []
  const found = reachableAddresses()
  if (!existsSync(join(dataDir, 'ca.pem'))) return found
  const permitted = new Set((await openAuthority({ directory: dataDir, names: [] })).names)
  const foreign = found.filter((address) => !permitted.has(address))
  if (foreign.length > 0) {
    note(
      `the authority in ${dataDir} was not created for ${foreign.join(', ')}: clients cannot use ${foreign.length > 1 ? 'these addresses' : 'this address'}. Use another --data-dir, or --name with --cert and --key.`,
    )
  }
  return found.filter((address) => permitted.has(address))
}

/**
 * The substitute for the name of a server that listens everywhere and has none: its first IPv4 address, if it has one.
 */
function publicName({ host, name, cert }: Flags, addresses: readonly string[]): { readonly name?: string } {
  if (!isWildcard(host) || name !== undefined || cert !== undefined) return {}
  return { name: addresses.find((address) => isIPv4(address)) ?? 'localhost' }
}

interface Addresses {
  readonly api_url: string
  readonly console_url: string
  readonly relay_grpc: string
  readonly relay_quic: readonly string[]
  readonly relay_files: string | undefined
  readonly relay_name: string | undefined
  readonly other_addresses: readonly string[] | undefined
}

function welcome(addresses: Addresses, ca: string | undefined, dataDir: string): string {
  const { api_url: url, console_url: page, relay_grpc: grpc, relay_quic: quic, other_addresses: others } = addresses
  return `
Static is running. Press Ctrl-C to stop it; all data is in ${dataDir}.

  API      ${url}
  console  ${page}
  docs     ${url}/docs
  relay    ${[...quic, grpc].join('  ')}
${ca === undefined ? '' : `  CA       ${ca}\n`}${others === undefined ? '' : `  also at  ${others.join('  ')}\n`}
Next, ${nextStep(addresses, ca)}:

  ${commandLine('signup')}${signupFlags(addresses, ca, dataDir)}
  ${commandLine('channel create acme/support/routing')}
  ${commandLine('channel listen acme/support/routing')}

ready
`
}

/** Several QUIC endpoints are one relay: clients choose among them. */
function announcementOf({ relay_quic: quic, relay_grpc: grpc, relay_name: name }: Addresses): RelayAnnouncement {
  const relay = [...(quic.length > 0 ? [quic.join(',')] : []), grpc]
  return { relay, ...(name === undefined ? {} : { relay_name: name }) }
}

function nextStep({ relay_name: name }: Addresses, ca: string | undefined): string {
  if (name === undefined) return 'in another terminal'
  return ca === undefined ? 'here or on another machine' : `here, or on another machine with a copy of ${ca}`
}

/** The flags that `static signup` needs when this server does not use the defaults. */
function signupFlags({ api_url: url }: Addresses, ca: string | undefined, dataDir: string): string {
  const isUsualPlace = dataDir === defaultDataDirectory() && new URL(url).hostname === 'localhost'
  return [
    ...(url === DEFAULT_API_URL ? [] : [` --api-url ${url}`]),
    ...(ca === undefined || isUsualPlace ? [] : [` --ca ${ca}`]),
  ].join('')
}
