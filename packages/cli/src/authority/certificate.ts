/** Creates CA and leaf certificates (RFC 5280). Validates nothing: see `open.ts`. */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  webcrypto,
} from 'node:crypto'
import { encodeConstraints, NAME_CONSTRAINTS } from './constraints.ts'
import { loadLibrary } from './library.ts'
import type { HostName } from './names.ts'

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256' }
const SIGNATURE = { name: 'ECDSA', hash: 'SHA-256' }
const DAY_MS = 86_400_000
const AUTHORITY_YEARS = 10
// Clients whose clock is slightly behind must accept a certificate that was just issued.
const BACKDATE_MS = 5 * 60_000

/** A certificate and its private key, both PEM. */
export interface CertificateAndKey {
  readonly cert: string
  readonly key: string
}

/** A new ECDSA P-256 private key, PKCS #8 PEM. */
export function makeKey(): string {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' })
}

/** Creates the certificate (PEM) of an authority that can sign for the given names only. */
export async function makeAuthorityCertificate(
  key: KeyObject,
  permitted: readonly HostName[],
  now: Date,
): Promise<string> {
  const x509 = await loadLibrary()
  const keys = await keyPair(key)
  const notAfter = new Date(now)
  notAfter.setUTCFullYear(notAfter.getUTCFullYear() + AUTHORITY_YEARS)
  const certificate = await x509.X509CertificateGenerator.createSelfSigned(
    {
      name: authorityName(key),
      keys,
      signingAlgorithm: SIGNATURE,
      serialNumber: serialNumber(),
      notBefore: new Date(now.getTime() - BACKDATE_MS),
      notAfter,
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
        new x509.Extension(NAME_CONSTRAINTS, true, encodeConstraints(permitted)),
      ],
    },
    webcrypto,
  )
  return pem(certificate)
}

/**
 * Creates a certificate and key signed by the authority, valid no longer than the authority: a server certificate for
 * the names, or, if there are none, the client certificate of a proxy.
 */
export async function makeLeafCertificate(
  authority: { readonly key: KeyObject; readonly notAfter: Date },
  names: readonly HostName[],
  days: number,
  now: Date,
): Promise<CertificateAndKey> {
  const x509 = await loadLibrary()
  const issuer = await keyPair(authority.key)
  const key = makeKey()
  const subject = await keyPair(createPrivateKey(key))
  const certificate = await x509.X509CertificateGenerator.create(
    {
      subject: names.length > 0 ? 'CN=Static server' : 'CN=Static proxy',
      issuer: authorityName(authority.key),
      publicKey: subject.publicKey,
      signingKey: issuer.privateKey,
      signingAlgorithm: SIGNATURE,
      serialNumber: serialNumber(),
      notBefore: new Date(now.getTime() - BACKDATE_MS),
      notAfter: new Date(Math.min(now.getTime() + days * DAY_MS, authority.notAfter.getTime())),
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        ...(names.length > 0
          ? [
              new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
              new x509.SubjectAlternativeNameExtension(names.map(({ type, text }) => ({ type, value: text }))),
            ]
          : [new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth])]),
        await x509.SubjectKeyIdentifierExtension.create(subject.publicKey, false, webcrypto),
        await x509.AuthorityKeyIdentifierExtension.create(issuer.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  )
  return { cert: pem(certificate), key }
}

/** Derived from the key, so that a certificate re-created for the same key is the same issuer to clients. */
function authorityName(key: KeyObject): string {
  const digest = createHash('sha256').update(createPublicKey(key).export({ type: 'spki', format: 'der' }))
  return `CN=Static local authority ${digest.digest('hex').slice(0, 8)}`
}

async function keyPair(key: KeyObject): Promise<webcrypto.CryptoKeyPair> {
  const { subtle } = webcrypto
  const pkcs8 = key.export({ type: 'pkcs8', format: 'der' })
  const spki = createPublicKey(key).export({ type: 'spki', format: 'der' })
  return {
    privateKey: await subtle.importKey('pkcs8', pkcs8, ALGORITHM, false, ['sign']),
    publicKey: await subtle.importKey('spki', spki, ALGORITHM, true, ['verify']),
  }
}

/** 16 random bytes in hexadecimal; positive and without leading zeros, so that DER keeps all of them. */
function serialNumber(): string {
  const bytes = randomBytes(16)
  bytes.writeUInt8((bytes.readUInt8(0) & 0x7f) | 0x40, 0)
  return bytes.toString('hex')
}

function pem(certificate: { toString(format: 'pem'): string }): string {
  return `${certificate.toString('pem').trim()}\n`
}
