/**
 * The certificate of `static up --acme`: ordered at the first start, kept in the data directory, and ordered anew when a
 * third of its life is left. A renewal that fails is tried again every hour, and at each start.
 *
 * Certificate and key are in one file, so that no crash leaves one without the other: authorities limit how many they
 * issue for a name. Each authority has a folder, so that changing from staging to production orders a new one.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { readPrivateFile, replaceFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { makeKey } from '../authority/certificate.ts'
import { parseHostName } from '../authority/names.ts'
import type { Certificate } from '../server/certificate.ts'
import { ensurePrivateDirectory, ensureSecretFile } from '../server/data-dir.ts'
import { note } from '../terminal/output.ts'
import { type AcmeOrder, orderCertificate } from './order.ts'

/** The flags of `static up`. */
export interface AcmeFlags {
  readonly acme?: string | undefined
  readonly acmeDirectory: string
  readonly acmePort: number
}

export interface PublicCertificateOptions extends Omit<AcmeOrder, 'accountKey'> {
  readonly dataDir: string
  /** For tests. */
  readonly order?: (order: AcmeOrder) => Promise<Certificate>
  readonly now?: () => Date
}

/** What the flags ask for; undefined without `--acme`. */
export function acmeOptions(
  { acme: email, acmeDirectory: authority, acmePort: port }: AcmeFlags,
  { name, cert, dataDir }: { readonly name?: string; readonly cert?: string; readonly dataDir: string },
): PublicCertificateOptions | undefined {
  if (email === undefined) return undefined
  if (cert !== undefined) throw invalid('Pass either --acme or --cert and --key, not both.')
  if (name === undefined) throw invalid('--acme needs --name, the public name of this server.')
  const { type, text } = parseHostName(name.replace(/:\d+$/, ''))
  if (type !== 'dns' || !text.includes('.'))
    throw invalid(`--acme needs a public DNS name, and --name is ${JSON.stringify(name)}.`)
  return { name: text, email, authority, port, dataDir }
}

/**
 * The certificate to present now. One that can still be used is returned even if it cannot be renewed.
 *
 * @throws {StaticError} as `orderCertificate` if there is none, `store_permissions` if others could have read its file
 */
export async function publicCertificate(options: PublicCertificateOptions): Promise<Certificate> {
  const { dataDir, now = () => new Date(), order = orderCertificate, ...wanted } = options
  const folder = join(dataDir, 'acme', new URL(wanted.authority).host.replace(':', '_'))
  for (const path of [join(dataDir, 'acme'), folder]) ensurePrivateDirectory(path)
  const file = join(folder, `${wanted.name}.pem`)
  const found = usable(readPrivateFile(file)?.toString(), wanted.name, now())
  if (found !== undefined && !isDue(found, now())) return found
  const accountKey = (await ensureSecretFile(join(folder, 'account.key'), () => Buffer.from(makeKey()))).toString()
  try {
    const made = await order({ ...wanted, accountKey })
    if (usable(`${made.key}${made.cert}`, wanted.name, now()) === undefined)
      throw StaticError.of('unavailable', `The authority issued no usable certificate for ${wanted.name}.`)
    // Durable before it is used: issued certificates are counted.
    replaceFile(file, `${made.key}${made.cert}`, 0o600)
    return made
  } catch (error) {
    if (found === undefined) throw error
    const { message } = StaticError.from(error)
    note(`${message} The present one expires on ${expiryOf(found).toISOString()}; the next attempt is within an hour.`)
    return found
  }
}

/** Certificate and key of a file, if they fit the name and have not expired. */
function usable(content: string | undefined, name: string, now: Date): Certificate | undefined {
  const parts = /^(-----BEGIN PRIVATE KEY-----\n[^-]+-----END PRIVATE KEY-----\n)(-----BEGIN CERTIFICATE-----[^]+)$/
  const [, key, cert] = parts.exec(content ?? '') ?? []
  if (key === undefined || cert === undefined) return undefined
  try {
    const certificate = new X509Certificate(cert)
    const isOwn = certificate.checkPrivateKey(createPrivateKey(key)) && certificate.checkHost(name) !== undefined
    return isOwn && certificate.validToDate > now ? { cert, key } : undefined
  } catch {
    return undefined
  }
}

function isDue({ cert }: Certificate, now: Date): boolean {
  const { validFromDate, validToDate } = new X509Certificate(cert)
  const life = validToDate.getTime() - validFromDate.getTime()
  return validToDate.getTime() - now.getTime() < life / 3
}

function expiryOf({ cert }: Certificate): Date {
  return new X509Certificate(cert).validToDate
}

function invalid(message: string): StaticError {
  return StaticError.of('invalid_request', message)
}
