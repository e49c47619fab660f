/** Why a TLS connection over TCP did not come about. */
import { ConnectionError, type ConnectionFailure } from '@static/node/connection-error'
import { StaticError } from '@static/protocol'

/** What the checks of a certificate find, by OpenSSL's name for it. */
const CERTIFICATE: Readonly<Record<string, string>> = {
  ERR_TLS_CERT_ALTNAME_INVALID: 'is not for this name',
  CERT_HAS_EXPIRED: 'has expired',
  CERT_NOT_YET_VALID: 'is not valid yet',
  INVALID_PURPOSE: 'is not for servers',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'is not signed by an authority that is trusted here',
  SELF_SIGNED_CERT_IN_CHAIN: 'is not signed by an authority that is trusted here',
  UNABLE_TO_GET_ISSUER_CERT: 'is not signed by an authority that is trusted here',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'is not signed by an authority that is trusted here',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'is not signed by an authority that is trusted here',
  CERT_SIGNATURE_FAILURE: 'is not signed by an authority that is trusted here',
}

/** Where it was tried, and what came of it. */
export interface TcpFailure {
  /** The address as people write it. */
  readonly place: string
  readonly serverName: string
  readonly cause: unknown
}

/** The error to tell. An error that has its words already is passed on. */
export function tcpFailure({ place, serverName, cause }: TcpFailure): StaticError {
  if (cause instanceof StaticError) return cause
  const code = codeOf(cause)
  const certificate = certificateFault(code)
  if (certificate !== undefined) {
    const text = `The certificate that ${place} shows for "${serverName}" ${certificate}.`
    return new ConnectionError('untrusted_certificate', text, cause)
  }
  const [reason, text] = networkFault(place, code)
  return new ConnectionError(reason, text, cause)
}

function certificateFault(code: string): string | undefined {
  if (Object.hasOwn(CERTIFICATE, code)) return CERTIFICATE[code]
  const isAny = /^(CERT_|UNABLE_TO_|ERROR_IN_CERT|INVALID_CA|PATH_LENGTH|HOSTNAME_)/.test(code)
  return isAny ? `is refused (${code})` : undefined
}

function networkFault(place: string, code: string): readonly [ConnectionFailure, string] {
  switch (code) {
    case 'ECONNREFUSED':
      return ['refused', `Nobody listens on TCP port ${portOf(place)}.`]
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return ['no_address', `No address is found for the name in ${place}.`]
    case 'ETIMEDOUT':
      return ['timed_out', `No answer from ${place} in time.`]
    case 'ECONNRESET':
    case 'EPIPE':
      return ['closed', `${place} cut the connection off before it was up.`]
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'EADDRNOTAVAIL':
      return ['unreachable', `${place} cannot be reached from this machine.`]
    case 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL':
      return ['wrong_protocol', `${place} does not speak HTTP/2.`]
    default:
      return code === 'EPROTO' || code.startsWith('ERR_SSL_')
        ? ['wrong_protocol', `The server at ${place} does not speak TLS 1.3 as Static needs it.`]
        : ['unreachable', `The connection to ${place} failed${code === '' ? '' : ` (${code})`}.`]
  }
}

/** `5000 of relay.example`, from `relay.example:5000`. */
function portOf(place: string): string {
  const colon = place.lastIndexOf(':')
  return `${place.slice(colon + 1)} of ${place.slice(0, colon)}`
}

function codeOf(cause: unknown): string {
  return cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? cause.code : ''
}
