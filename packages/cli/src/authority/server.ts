/** The server certificate, stored next to the authority and renewed before it expires. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import { readPrivateFile, readPublicFile, replaceFile } from '@static/node/files'
import type { CertificateAndKey } from './certificate.ts'
import { LOOPBACK, parseHostName, parseHostNames } from './names.ts'
import { type Authority, openAuthority } from './open.ts'

const RENEW_BEFORE_MS = 30 * 86_400_000

/** The certificate that a server presents. */
export interface ServerCertificate extends CertificateAndKey {
  /** The authority that signed it. */
  readonly authority: Authority
  /** Whether this call issued it; a running server must then load it. */
  readonly renewed: boolean
}

/** Selects one of the certificates in a data directory. */
export interface ServerCertificateOptions {
  /** The name of its files, without `.pem` and `.key`. */
  readonly file?: string
  /** Whether it includes IP addresses, which BoringSSL (in QUIC and many gRPC clients) refuses under name constraints. */
  readonly addresses?: boolean
  readonly now?: () => Date
}

/**
 * The server certificate in a data directory, for the given names plus localhost, 127.0.0.1 and ::1. It is reused while
 * it is valid for more than 30 days, has the same names and is signed by the authority there; otherwise it is reissued,
 * with a new key. Call this daily in a long-running server.
 *
 * Throws as `openAuthority`, and `store_permissions` for its own key.
 */
export async function serverCertificate(
  directory: string,
  names: readonly string[],
  { file = 'server', addresses = true, now = () => new Date() }: ServerCertificateOptions = {},
): Promise<ServerCertificate> {
  const authority = await openAuthority({ directory, names, now })
  const certPath = join(directory, `${file}.pem`)
  const keyPath = join(directory, `${file}.key`)
  const wanted = parseHostNames([...LOOPBACK, ...names])
    .filter(({ type }) => addresses || type === 'dns')
    .map(({ text }) => text)

  const cert = readPublicFile(certPath)?.toString()
  const key = readPrivateFile(keyPath)?.toString()
  if (cert !== undefined && key !== undefined && isUsable({ cert, key }, authority, wanted, now())) {
    return { cert, key, authority, renewed: false }
  }
  const made = await authority.issue(wanted)
  // A crash between the two leaves files that do not match, which the next start detects and replaces.
  replaceFile(keyPath, made.key, 0o600)
  replaceFile(certPath, made.cert, 0o644)
  return { ...made, authority, renewed: true }
}

function isUsable(found: CertificateAndKey, authority: Authority, wanted: readonly string[], now: Date): boolean {
  try {
    const certificate = new X509Certificate(found.cert)
    const issuer = new X509Certificate(authority.cert)
    return (
      certificate.checkPrivateKey(createPrivateKey(found.key)) &&
      certificate.checkIssued(issuer) &&
      certificate.verify(issuer.publicKey) &&
      certificate.validFromDate <= now &&
      certificate.validToDate.getTime() - now.getTime() > RENEW_BEFORE_MS &&
      new Set(wanted).symmetricDifference(namesOf(certificate)).size === 0
    )
  } catch {
    // Unreadable: treat it as missing, since a new one costs nothing and clients do not notice.
    return false
  }
}

function namesOf(certificate: X509Certificate): Set<string> {
  // "DNS:localhost, IP Address:127.0.0.1": our names contain no character that would be quoted here.
  const entries = (certificate.subjectAltName ?? '').split(', ')
  return new Set(entries.map((entry) => parseHostName(entry.replace(/^(DNS|IP Address):/, '')).text))
}
