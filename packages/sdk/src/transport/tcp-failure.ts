/** Explains why a TLS connection over TCP failed. */
import { type CertificateFault, certificateError, otherCertificateError } from '@static/node/certificate-fault'
import { ConnectionError, type ConnectionFailure } from '@static/node/connection-error'
import { StaticError } from '@static/protocol'

/** Certificate faults by OpenSSL's error name. */
const CERTIFICATE: Readonly<Record<string, CertificateFault>> = {
  ERR_TLS_CERT_ALTNAME_INVALID: 'name',
  CERT_HAS_EXPIRED: 'time',
  CERT_NOT_YET_VALID: 'time',
  INVALID_PURPOSE: 'purpose',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'untrusted',
  SELF_SIGNED_CERT_IN_CHAIN: 'untrusted',
  UNABLE_TO_GET_ISSUER_CERT: 'untrusted',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'untrusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'untrusted',
  CERT_SIGNATURE_FAILURE: 'untrusted',
}

const OTHER_CERTIFICATE = /^(CERT_|UNABLE_TO_|ERROR_IN_CERT|INVALID_CA|PATH_LENGTH|HOSTNAME_)/

export interface TcpFailure {
  /** Host and port, for error messages. */
  readonly place: string
  readonly serverName: string
  readonly cause: unknown
}

/** The error to report. A StaticError is passed on unchanged. */
export function tcpFailure({ place, serverName, cause }: TcpFailure): StaticError {
  if (cause instanceof StaticError) return cause
  const code = codeOf(cause)
  const fault = Object.hasOwn(CERTIFICATE, code) ? CERTIFICATE[code] : undefined
  if (fault !== undefined) return certificateError(fault, { place, serverName, cause })
  if (OTHER_CERTIFICATE.test(code)) return otherCertificateError(code, { place, serverName, cause })
  const [reason, text] = networkFault(place, code)
  return new ConnectionError(reason, text, cause)
}

function networkFault(place: string, code: string): readonly [ConnectionFailure, string] {
  switch (code) {
    case 'ECONNREFUSED':
      return ['refused', `Nothing is listening on TCP port ${portOf(place)}.`]
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return ['no_address', `Could not resolve the host name in ${place}.`]
    case 'ETIMEDOUT':
      return ['timed_out', `Connecting to ${place} timed out.`]
    case 'ECONNRESET':
    case 'EPIPE':
      return ['closed', `${place} closed the connection before it was established: it may have no room. Retry later.`]
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'EADDRNOTAVAIL':
      return ['unreachable', `${place} cannot be reached from this machine.`]
    case 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL':
      return ['wrong_protocol', `${place} does not speak HTTP/2.`]
    default:
      return code === 'EPROTO' || code.startsWith('ERR_SSL_')
        ? ['wrong_protocol', `The server at ${place} does not support TLS 1.3, which Static requires.`]
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
