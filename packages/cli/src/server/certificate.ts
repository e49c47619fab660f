/** The operator's own certificate, from --cert and --key. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { StaticError } from '@static/protocol'
import type { ServeFlags } from './flags.ts'
import { readText } from './input-files.ts'

/** A certificate and its key, PEM. */
export interface Certificate {
  readonly cert: string
  readonly key: string
}

/** The operator's own certificate; undefined without the flags. */
export async function givenCertificate({ cert, key }: ServeFlags): Promise<Certificate | undefined> {
  if (cert === undefined && key === undefined) return undefined
  if (cert === undefined || key === undefined) {
    throw StaticError.of(
      'invalid_request',
      `Only ${cert === undefined ? '--key' : '--cert'} is given. Pass both --cert and --key, or neither.`,
    )
  }
  const given = { cert: await readText(cert), key: await readText(key) }
  const certificate = parsed(cert, 'certificate', () => new X509Certificate(given.cert))
  const privateKey = parsed(key, 'private key', () => createPrivateKey(given.key))
  if (!certificate.checkPrivateKey(privateKey)) {
    throw StaticError.of(
      'invalid_request',
      `The private key ${key} does not match the certificate ${cert}. Pass a matching pair.`,
    )
  }
  return given
}

function parsed<Value>(path: string, what: string, parse: () => Value): Value {
  try {
    return parse()
  } catch (cause) {
    throw StaticError.of('invalid_request', `${path} does not contain a PEM ${what}.`, { cause })
  }
}
