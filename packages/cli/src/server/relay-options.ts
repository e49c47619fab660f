/** Options of a relay, from its flags. */
import { join } from 'node:path'
import type { RelayOptions } from '@static/relay'
import { openFileStore } from './file-store.ts'
import type { ServeFlags } from './flags.ts'
import { settingsOf } from './input-files.ts'
import type { RelayFlags } from './relay-flags.ts'
import { endOnFatal } from './run-until-stopped.ts'

/** The options that `up` and `relay` share. */
export async function relayOptionsFrom(
  flags: RelayFlags,
): Promise<Omit<RelayOptions, 'api' | 'certificate' | 'log' | 'metricsToken' | 'proxyCa' | 'namedCertificate'>> {
  return {
    name: relayName(flags),
    database: join(flags.dataDir, 'relay.sqlite'),
    host: flags.host,
    grpcPort: flags.grpcPort,
    quicPort: flags.quicPort,
    quicEndpoints: flags.quicEndpoints,
    files: await filesOf(flags),
    proxyProtocolFrom: flags.proxyProtocolFrom,
    origins: flags.origin,
    guests: flags.guests,
    traffic: { floor: flags.trafficFloor, ceiling: flags.trafficCeiling },
    settings: await settingsOf(flags.relaySettings),
    logClients: flags.logClients,
    onFatal: endOnFatal,
  }
}

async function filesOf({ files, filesPort, filesUrl, fileStore, dataDir }: RelayFlags): Promise<RelayOptions['files']> {
  if (!files) return undefined
  // Of bodies on their way to a bucket, this directory has no more than open files.
  const directory = join(dataDir, 'files')
  return { port: filesPort, url: filesUrl, store: await openFileStore(fileStore ?? directory, directory) }
}

/** The relay's server name for agents: it must be in the certificate, and is never an IP address. */
export function relayName({ host, name }: ServeFlags): string {
  const bare = name?.replace(/:\d+$/, '') ?? host
  return /^[\d.]+$|:/.test(bare) ? 'localhost' : bare
}
