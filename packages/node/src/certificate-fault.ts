/** The faults of a server's certificate, in the same words for QUIC and TCP. */
import { ConnectionError } from './connection-error.ts'

/** A fault that both TLS libraries report. */
export type CertificateFault = keyof typeof FAULTS

const FAULTS = {
  name: ['is not for this name', 'Connect by a name that it contains, or issue it for this name.'],
  // QUIC's alert does not distinguish these two, nor the next two.
  nameOrForm: ['is not for this name, or is malformed', 'Connect by a name that it contains, or issue it again.'],
  time: ['has expired or is not valid yet', 'Renew it, or correct the clock of this machine.'],
  purpose: ['is not for servers', 'Issue one for servers.'],
  untrusted: ['is not signed by a trusted CA', 'If it is the right server, trust its CA with `ca`, --ca or STATIC_CA.'],
  unchecked: [
    'cannot be checked; a name constraint on addresses is a known cause',
    'Issue it for names only, without IP addresses.',
  ],
} as const

/** Where a certificate was presented, and for which name. */
export interface Presented {
  readonly place: string
  readonly serverName: string
  readonly cause: unknown
}

/** The error for a certificate that is not accepted. */
export function certificateError(fault: CertificateFault, presented: Presented): ConnectionError {
  const [what, remedy] = FAULTS[fault]
  return untrusted(presented, what, remedy)
}

/** The same for a fault known only by a library's name or number. */
export function otherCertificateError(code: string, presented: Presented): ConnectionError {
  return untrusted(presented, `was refused (${code})`, 'Check the certificate of the server.')
}

function untrusted({ place, serverName, cause }: Presented, what: string, remedy: string): ConnectionError {
  const text = `The certificate that ${place} presented for "${serverName}" ${what}. ${remedy}`
  return new ConnectionError('untrusted_certificate', text, cause)
}
