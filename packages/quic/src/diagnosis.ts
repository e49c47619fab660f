/** Determines why a QUIC connection failed, as far as possible. */
import { createSocket } from 'node:dgram'
import { isIP } from 'node:net'
import { ALPN, StaticError } from '@static/protocol'
import { type CertificateFault, certificateError, otherCertificateError } from '@static/node/certificate-fault'
import { ConnectionError } from '@static/node/connection-error'
import { placeOf } from '@static/node/dial'
import { peerSentence } from '@static/node/peer-text'
import { QUIC_FULL } from './settings.ts'

/** A TLS alert as QUIC carries it (RFC 9001, section 4.8). */
const ALERT = 0x100
const NO_APPLICATION_PROTOCOL = 120
const PROBE_MS = 500
const FULL_RETRY_S = 5

/** The meaning of alerts when this side refused the relay's certificate. */
const REFUSED: Readonly<Record<number, CertificateFault>> = {
  42: 'nameOrForm',
  43: 'purpose',
  45: 'time',
  46: 'unchecked',
  48: 'untrusted',
}

/** The meaning of alerts from a relay after the handshake: they concern the client certificate. */
const SHOWN: Readonly<Record<number, string>> = {
  42: 'is malformed',
  43: 'is not for clients',
  45: 'has expired or is not valid yet',
  48: 'is not signed by an authority that the relay trusts',
}

/** The known facts about a failed connection. */
export interface FailedConnection {
  readonly address: string
  readonly port: number
  readonly serverName: string
  /** The code with which the connection was closed; undefined or 0 if nothing was received. */
  readonly closeCode: number | undefined
  /** A client certificate was sent, so the relay may have refused it. */
  readonly shown: boolean
  readonly cause: unknown
}

/** The error of a connection that failed. Probes the port if the library has no reason. */
export async function connectFailure(failed: FailedConnection): Promise<StaticError> {
  const { address, port, serverName, closeCode = 0, shown, cause } = failed
  const place = placeOf(address, port)
  // A busy thread may learn at the same time that a connection is open and closed.
  if (closeCode === QUIC_FULL) return fullPort()
  if (closeCode >= ALERT && closeCode < 2 * ALERT) {
    const alert = closeCode - ALERT
    if (alert === NO_APPLICATION_PROTOCOL) {
      return new ConnectionError('wrong_protocol', `The server at ${place} does not speak ${ALPN}.`, cause)
    }
    const fault = REFUSED[alert]
    const presented = { place, serverName, cause }
    const error = fault ? certificateError(fault, presented) : otherCertificateError(`TLS alert ${alert}`, presented)
    if (!shown) return error
    const or = 'Or the server refused the client certificate.'
    return new ConnectionError('untrusted_certificate', `${error.message} ${or}`, cause)
  }
  if (closeCode !== 0)
    return new ConnectionError('closed', `${place} closed the connection with code ${closeCode}.`, cause)
  // The library has no code for this, only a message.
  if (cause instanceof Error && /TlsFail|TLS/.test(cause.message)) {
    const what = shown ? 'CA certificate or the client certificate' : 'CA certificate'
    return new ConnectionError('unreadable_authority', `The ${what} for ${place} cannot be read.`, cause)
  }
  switch (await probe(address, port)) {
    case 'refused':
      return new ConnectionError('refused', `Nothing is listening on UDP port ${port} of ${address}.`, cause)
    case 'unreachable':
      return new ConnectionError('unreachable', `${place} cannot be reached over UDP from this machine.`, cause)
    case 'answers': {
      const text = `A QUIC server answers at ${place} but does not connect: it does not speak ${ALPN}, or it has no room. Check the port, or retry later.`
      return new ConnectionError('wrong_protocol', text, cause)
    }
    case 'silent': {
      const text = `No answer from ${place}: nothing is listening there, or UDP is blocked on the way.`
      return new ConnectionError('timed_out', text, cause)
    }
  }
}

/** Whether the machine reports a closed port. The library ignores that and waits until its timeout. */
export async function isRefused(address: string, port: number): Promise<boolean> {
  return (await probe(address, port)) === 'refused'
}

/** Why an open connection was closed; undefined if no reason was given. */
export function closeReason(code: number, reason: string, shown: boolean): StaticError | undefined {
  if (code === QUIC_FULL) return fullPort()
  if (shown && code >= ALERT && code < 2 * ALERT) {
    const alert = code - ALERT
    const what = SHOWN[alert] ?? `was refused (TLS alert ${alert})`
    return new ConnectionError('closed', `The relay refused the client certificate: it ${what}.`)
  }
  if (code === 0 && reason === '') return undefined
  const why = reason === '' ? `code ${code}.` : peerSentence(reason)
  return new ConnectionError('closed', `The connection to the relay was closed: ${why}`)
}

function fullPort(): StaticError {
  const text =
    'This QUIC port of the relay accepts no more connections at the moment. Retry later, or use gRPC with an https endpoint.'
  return StaticError.of('unavailable', text, { retryAfter: FULL_RETRY_S })
}

/** Sends an empty Initial packet: a QUIC server that validates addresses responds with a Retry. */
async function probe(address: string, port: number): Promise<'refused' | 'unreachable' | 'answers' | 'silent'> {
  const packet = Buffer.alloc(1200)
  packet.writeUInt8(0xc3, 0) // long header, Initial, 4-byte packet number (RFC 9000, section 17.2.2)
  packet.writeUInt32BE(1, 1) // QUIC version 1
  packet.writeUInt8(8, 5) // the two connection ids, 8 bytes each; no token
  packet.writeUInt8(8, 14)
  packet.writeUInt16BE(0x4000 | (packet.length - 26), 24)
  const socket = createSocket(isIP(address) === 6 ? 'udp6' : 'udp4')
  let timer: NodeJS.Timeout | undefined
  try {
    return await new Promise((resolve) => {
      socket.on('error', ({ code }: NodeJS.ErrnoException) =>
        resolve(code === 'ECONNREFUSED' ? 'refused' : 'unreachable'),
      )
      socket.once('message', () => resolve('answers'))
      socket.connect(port, address, () => socket.send(packet))
      // setImmediate handles a response that has already arrived first, even if this process was stalled.
      timer = setTimeout(() => setImmediate(() => resolve('silent')), PROBE_MS)
    })
  } finally {
    clearTimeout(timer)
    socket.close()
  }
}
