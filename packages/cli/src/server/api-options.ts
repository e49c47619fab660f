/** Options of the API, from flags and from the secrets in the data directory. */
import { randomBytes } from 'node:crypto'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ApiOptions } from '@static/api'
import { StaticError } from '@static/protocol'
import { ensureSecretFile } from './data-dir.ts'
import type { ApiServerFlags } from './flags.ts'
import { metricsTokenOf, settingsOf } from './input-files.ts'
import { logOf } from './log-options.ts'
import { credentialsIn } from './relay-credential.ts'

/** The options that `up` and `api` share. Creates missing secrets. */
export async function apiOptionsFrom(flags: ApiServerFlags): Promise<Omit<ApiOptions, 'database' | 'certificate'>> {
  const secret = (): Buffer => Buffer.from(`${randomBytes(32).toString('hex')}\n`)
  const master = await ensureSecretFile(join(flags.dataDir, 'master.key'), secret)
  const masterKey = Buffer.from(master.toString().trim(), 'hex')
  if (masterKey.length !== 32) {
    throw StaticError.of(
      'invalid_request',
      `${join(flags.dataDir, 'master.key')} is not a master key: it must contain 64 hexadecimal digits. Restore it.`,
    )
  }
  const credentialFile = join(flags.dataDir, 'relay.credential')
  const credentials = credentialsIn((await ensureSecretFile(credentialFile, secret)).toString(), credentialFile)
  return {
    masterKey,
    host: flags.host,
    port: flags.apiPort,
    name: flags.name,
    internal:
      flags.internalPort === undefined
        ? undefined
        : { host: flags.internalHost, port: flags.internalPort, credentials },
    metricsToken: await metricsTokenOf(flags),
    trustedProxies: flags.trustedProxy,
    proxyProtocolFrom: flags.proxyProtocolFrom,
    signup: flags.signup,
    auditAddresses: flags.auditAddresses,
    logClients: flags.logClients,
    console: dirname(fileURLToPath(import.meta.resolve('@static/console/dist/index.html'))),
    settings: await settingsOf(flags.settings),
    log: logOf(flags),
  }
}
