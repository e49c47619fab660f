/**
 * The local certificate authority of `static up`: created on the first start, checked on every later one.
 *
 * `ca.key` is written before `ca.pem`, so the existence of `ca.pem` decides. A key without a certificate is left over
 * from an interrupted first start (no client trusts it yet): this start continues with that key. A certificate without
 * its key cannot result from a crash, and clients may trust it, so it is refused. Concurrent first starts agree on the
 * winner's files, one file at a time.
 *
 * Anyone who can read `ca.key` can impersonate the permitted names to clients that trust `ca.pem`, but no other names.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { readPrivateFile, readPublicFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { ensurePrivateDirectory, ensurePublicFile, ensureSecretFile } from '../server/data-dir.ts'
import { type CertificateAndKey, makeAuthorityCertificate, makeKey, makeLeafCertificate } from './certificate.ts'
import { permits, readConstraints } from './constraints.ts'
import { type HostName, LOOPBACK, parseHostNames } from './names.ts'

export interface AuthorityOptions {
  /** The data directory; created if missing. */
  readonly directory: string
  /** The host names of the servers, in addition to localhost, 127.0.0.1 and ::1. */
  readonly names: readonly string[]
  /** The clock, for tests. */
  readonly now?: () => Date
}

export interface Authority {
  /** The path of `ca.pem`, which clients pass as their `ca`. */
  readonly path: string
  /** The certificate, PEM. */
  readonly cert: string
  /** When the authority expires. */
  readonly notAfter: Date
  /** The names that it can sign for, in normal form; DNS names include their subdomains. */
  readonly names: readonly string[]
  /**
   * Issues a server certificate for exactly these names, with a new key.
   *
   * Throws `invalid_request` for a name that the authority cannot sign for.
   */
  issue(names: readonly string[], options?: { readonly days?: number }): Promise<CertificateAndKey>
  /** Issues a client certificate with which a stand-alone proxy authenticates to a relay. */
  issueClient(options?: { readonly days?: number }): Promise<CertificateAndKey>
}

/**
 * Opens the authority in a directory, or creates one for the given names.
 *
 * Throws `store_permissions` if others could have read or changed the files, `invalid_request` if certificate and key
 * do not match, the certificate has expired, or the authority cannot sign for one of the names.
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

  // Read the certificate first: once it exists, its key must exist as well, even while another process creates both.
  const present = readPublicFile(path)
  const keyPem =
    present === undefined ? await ensureSecretFile(keyPath, () => Buffer.from(makeKey())) : readPrivateFile(keyPath)
  if (keyPem === undefined) {
    throw invalid(`${keyPath}, the key of ${path}, is missing. Restore it, or ${startOver(path)}.`)
  }
  const key = readKey(keyPem, keyPath, present === undefined ? startOver(keyPath) : startOver(path, keyPath))
  const cert =
    present ??
    (await ensurePublicFile(path, async () => Buffer.from(await makeAuthorityCertificate(key, wanted, now()))))

  const certificate = readCertificate(cert, path)
  if (!certificate.checkPrivateKey(key)) {
    throw invalid(`${keyPath} is not the key of ${path}. Restore the matching files, or ${startOver(path, keyPath)}.`)
  }
  const remedy = startOver(path, keyPath)
  const permitted = certificate.ca ? readConstraints(certificate.raw) : undefined
  if (permitted === undefined)
    throw invalid(`${path} was not created by Static: it has no name constraints. To continue, ${remedy}.`)
  checkTime(certificate, path, remedy, now())
  checkNames(permitted, wanted, remedy)

  return {
    path,
    cert: cert.toString(),
    notAfter: certificate.validToDate,
    names: permitted.map(({ text }) => text),
    issue: async (leafNames, { days = 90 } = {}) => {
      const parsed = parseHostNames(leafNames)
      if (parsed.length === 0) throw invalid('No names are given. A server certificate needs at least one name.')
      checkNames(permitted, parsed, remedy)
      return await makeLeafCertificate({ key, notAfter: certificate.validToDate }, parsed, days, now())
    },
    issueClient: ({ days = 365 } = {}) =>
      makeLeafCertificate({ key, notAfter: certificate.validToDate }, [], days, now()),
  }
}

function readKey(pem: Buffer, path: string, remedy: string): KeyObject {
  let key: KeyObject
  try {
    key = createPrivateKey(pem)
  } catch (error) {
    throw invalid(`${path} is not a private key. Restore it, or ${remedy}.`, error)
  }
  if (key.asymmetricKeyDetails?.namedCurve !== 'prime256v1') {
    throw invalid(`${path} is not an ECDSA P-256 key. Restore the original, or ${remedy}.`)
  }
  return key
}

function readCertificate(pem: Buffer, path: string): X509Certificate {
  try {
    return new X509Certificate(pem)
  } catch (error) {
    throw invalid(`${path} is not a certificate. Restore it, or ${startOver(path)}.`, error)
  }
}

function checkTime(certificate: X509Certificate, path: string, remedy: string, now: Date): void {
  if (now > certificate.validToDate) {
    throw invalid(`The authority ${path} expired on ${certificate.validToDate.toISOString()}. To continue, ${remedy}.`)
  }
  if (now < certificate.validFromDate) {
    const from = certificate.validFromDate.toISOString()
    throw invalid(`The authority ${path} is not valid before ${from}. Set the clock of this machine.`)
  }
}

function checkNames(permitted: readonly HostName[], wanted: readonly HostName[], remedy: string): void {
  const outside = wanted.filter((name) => !permits(permitted, name)).map(({ text }) => text)
  if (outside.length === 0) return
  const known = permitted.map(({ text }) => text).join(', ')
  throw invalid(
    `The local authority can sign for ${known}, but not for ${outside.join(', ')}. ` +
      `Leave that name out, pass your own certificate with --cert and --key, or ${remedy}.`,
  )
}

function startOver(...paths: readonly string[]): string {
  return `remove ${paths.join(' and ')} to create a new authority (every client then needs the new ca.pem)`
}

function invalid(message: string, cause?: unknown): StaticError {
  return new StaticError('invalid_request', message, { cause })
}
