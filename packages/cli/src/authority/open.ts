/**
 * The local certificate authority of `static up`: made on first start, checked on every later one.
 *
 * `ca.key` is written before `ca.pem`, and `ca.pem` is what counts. A key without a certificate is a first start that
 * was cut short (nobody trusts it yet): it goes on with that key. A certificate without its key cannot come from a
 * crash, and clients may trust it: that is refused. Two first starts at once agree, file by file, on the winner's.
 *
 * Whoever reads `ca.key` can speak for the permitted names to clients that trust `ca.pem`, and for no others.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { readPrivateFile, readPublicFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { ensurePrivateDirectory, ensurePublicFile, ensureSecretFile } from '../server/data-dir.ts'
import { type CertificateAndKey, makeAuthorityCertificate, makeKey, makeLeafCertificate } from './certificate.ts'
import { permits, readConstraints } from './constraints.ts'
import { type HostName, LOOPBACK, parseHostNames } from './names.ts'

/** How to open an authority. */
export interface AuthorityOptions {
  /** The data directory; made if missing. */
  readonly directory: string
  /** The names that servers are reached by, beside localhost, 127.0.0.1 and ::1. */
  readonly names: readonly string[]
  /** The clock, for tests. */
  readonly now?: () => Date
}

/** A local certificate authority. */
export interface Authority {
  /** The path of `ca.pem`, which clients take as their `ca`. */
  readonly path: string
  /** The certificate, PEM. */
  readonly cert: string
  /** When the authority ends. */
  readonly notAfter: Date
  /** The names that it can speak for, in normal form; DNS names include those below them. */
  readonly names: readonly string[]
  /**
   * Makes a server certificate for exactly these names, and a new key for it.
   *
   * Throws `invalid_request` for a name that the authority cannot speak for.
   */
  issue(names: readonly string[], options?: { readonly days?: number }): Promise<CertificateAndKey>
  /** Makes a client certificate, by which a relay knows a stand-alone proxy. */
  issueClient(options?: { readonly days?: number }): Promise<CertificateAndKey>
}

/**
 * Opens the authority in a directory, or makes one for the given names.
 *
 * Throws `store_permissions` if others could have read or changed the files, `invalid_request` if they do not belong
 * together, have expired, or the authority cannot speak for one of the names.
 */
export async function openAuthority({
  directory,
  names,
  now = () => new Date(),
}: AuthorityOptions): Promise<Authority> {
  const wanted = parseHostNames([...LOOPBACK, ...names])
  ensurePrivateDirectory(directory)
  const path = join(directory, 'ca.pem')
  const keyPath = join(directory, 'ca.key')

  // First the certificate: once it is there its key must be, also while another process makes both.
  const present = readPublicFile(path)
  const keyPem =
    present === undefined ? await ensureSecretFile(keyPath, () => Buffer.from(makeKey())) : readPrivateFile(keyPath)
  if (keyPem === undefined) {
    throw invalid(`${path} has no ca.key beside it: put the key back, or ${startAnew(path)}.`)
  }
  const key = readKey(keyPem, keyPath, present === undefined ? startAnew(keyPath) : startAnew(path, keyPath))
  const cert =
    present ??
    (await ensurePublicFile(path, async () => Buffer.from(await makeAuthorityCertificate(key, wanted, now()))))

  const certificate = readCertificate(cert, path)
  if (!certificate.checkPrivateKey(key)) {
    throw invalid(`${path} and ca.key do not belong together: put the right ones back, or ${startAnew(path, keyPath)}.`)
  }
  const anew = startAnew(path, keyPath)
  const permitted = certificate.ca ? readConstraints(certificate.raw) : undefined
  if (permitted === undefined) throw invalid(`${path} was not made by Static (no name constraints): ${anew}.`)
  checkTime(certificate, path, anew, now())
  checkNames(permitted, wanted, anew)

  return {
    path,
    cert: cert.toString(),
    notAfter: certificate.validToDate,
    names: permitted.map(({ text }) => text),
    issue: async (leafNames, { days = 90 } = {}) => {
      const parsed = parseHostNames(leafNames)
      if (parsed.length === 0) throw invalid('A server certificate needs at least one name.')
      checkNames(permitted, parsed, anew)
      return await makeLeafCertificate({ key, notAfter: certificate.validToDate }, parsed, days, now())
    },
    issueClient: ({ days = 365 } = {}) =>
      makeLeafCertificate({ key, notAfter: certificate.validToDate }, [], days, now()),
  }
}

function readKey(pem: Buffer, path: string, anew: string): KeyObject {
  let key: KeyObject
  try {
    key = createPrivateKey(pem)
  } catch (error) {
    throw invalid(`${path} is not a private key: put the right one back, or ${anew}.`, error)
  }
  if (key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') {
    throw invalid(`${path} is not an ECDSA P-256 key: put the right one back, or ${anew}.`)
  }
  return key
}

function readCertificate(pem: Buffer, path: string): X509Certificate {
  try {
    return new X509Certificate(pem)
  } catch (error) {
    throw invalid(`${path} is not a certificate: put the right one back, or ${startAnew(path)}.`, error)
  }
}

function checkTime(certificate: X509Certificate, path: string, anew: string, now: Date): void {
  if (now > certificate.validToDate) {
    throw invalid(`The authority ${path} expired on ${certificate.validToDate.toISOString()}: ${anew}.`)
  }
  if (now < certificate.validFromDate) {
    const from = certificate.validFromDate.toISOString()
    throw invalid(`The authority ${path} is valid only from ${from} on: set this machine's clock right.`)
  }
}

function checkNames(permitted: readonly HostName[], wanted: readonly HostName[], anew: string): void {
  const outside = wanted.filter((name) => !permits(permitted, name)).map(({ text }) => text)
  if (outside.length === 0) return
  const known = permitted.map(({ text }) => text).join(', ')
  throw invalid(
    `The local authority speaks for ${known}, not for ${outside.join(', ')}: ` +
      `leave that name out, give a certificate of your own with --cert and --key, or ${anew}.`,
  )
}

function startAnew(...paths: readonly string[]): string {
  return `remove ${paths.join(' and ')} to start a new authority, whose ca.pem every client must then get`
}

function invalid(message: string, cause?: unknown): StaticError {
  return new StaticError('invalid_request', message, { cause })
}
