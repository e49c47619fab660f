/** Why a QUIC connection failed, in words: as much as can be known, and not more. */
import { createSocket } from 'node:dgram'
import { isIP } from 'node:net'
import { ALPN, StaticError } from '@static/protocol'

/** A TLS alert as QUIC carries it (RFC 9001, section 4.8). */
const ALERT = 0x100
const PROBE_MS = 500

/** What alerts mean when this side has refused the relay's certificate. */
const REFUSED: Readonly<Record<number, string>> = {
  42: 'is not for this name, or is malformed',
  43: 'is not for servers',
  45: 'has expired or is not valid yet',
  46: 'cannot be checked; a name constraint on addresses is a known cause',
  48: 'is not signed by the authority that was given',
}

/** What alerts mean when they come from a relay after the handshake: they are about the client certificate. */
const SHOWN: Readonly<Record<number, string>> = {
  42: 'is malformed',
  43: 'is not for clients',
  45: 'has expired or is not valid yet',
  48: 'is not signed by an authority that the relay knows',
}

/** What is known about a connection that did not come about. */
export interface ConnectFailure {
  readonly address: string
  readonly port: number
  readonly serverName: string
  /** With what code the connection was closed; undefined or 0 when nothing came at all. */
  readonly closeCode: number | undefined
  /** A client certificate was shown: the relay may have refused that one. */
  readonly shown: boolean
  readonly cause: unknown
}

/** The error of a connection that did not come about. Asks the port itself when the library knows nothing. */
export async function connectFailure(failure: ConnectFailure): Promise<StaticError> {
  const { address, port, serverName, closeCode = 0, shown, cause } = failure
  const place = isIP(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`
  const say = (text: string): StaticError => StaticError.of('connection_error', text, { cause })
  if (closeCode >= ALERT && closeCode < 2 * ALERT) {
    const alert = closeCode - ALERT
    if (alert === 120) return say(`The server at ${place} does not speak ${ALPN}.`)
    const what = REFUSED[alert] ?? `was refused (TLS alert ${alert})`
    const or = shown ? ', or the client certificate is refused there' : ''
    return say(`The certificate that ${place} shows for "${serverName}" ${what}${or}.`)
  }
  if (closeCode !== 0) return say(`${place} closed the connection with code ${closeCode}.`)
  if (cause instanceof Error && /TlsFail|TLS/.test(cause.message)) {
    return say(`The authority or the client certificate for ${place} cannot be read.`)
  }
  switch (await probe(address, port)) {
    case 'refused':
      return say(`Nobody listens on UDP port ${port} of ${address}.`)
    case 'answers':
      return say(`A QUIC server answers at ${place}, but lets nobody in: it does not speak ${ALPN}, or it is full.`)
    case 'silent':
      return say(`No answer from ${place}: nobody listens there, or UDP is blocked on the way.`)
  }
}

/** Why a connection that was up is over; undefined when it was closed in order. */
export function closeReason(code: number, reason: string): StaticError | undefined {
  if (code >= ALERT && code < 2 * ALERT) {
    const alert = code - ALERT
    const what = SHOWN[alert] ?? `was refused (TLS alert ${alert})`
    return StaticError.of('connection_error', `The relay does not take the client certificate: it ${what}.`)
  }
  if (code === 0 && reason === '') return undefined
  return StaticError.of('connection_error', `The connection was closed: ${reason === '' ? `code ${code}` : reason}.`)
}

/** Sends a first packet with nothing in it: a QUIC server that checks addresses answers it with a Retry. */
async function probe(address: string, port: number): Promise<'refused' | 'answers' | 'silent'> {
  const packet = Buffer.alloc(1200)
  packet.writeUInt8(0xc3, 0) // long header, Initial, 4-byte packet number (RFC 9000, section 17.2.2)
  packet.writeUInt32BE(1, 1) // QUIC version 1
  packet.writeUInt8(8, 5) // the two connection ids, 8 bytes each; no token
  packet.writeUInt8(8, 14)
  packet.writeUInt16BE(0x4000 | (packet.length - 26), 24)
  const socket = createSocket(isIP(address) === 6 ? 'udp6' : 'udp4')
  try {
    return await new Promise((resolve) => {
      socket.once('error', () => resolve('refused'))
      socket.once('message', () => resolve('answers'))
      socket.connect(port, address, () => socket.send(packet))
      // An answer that is here already is heard first, also when this process stood still.
      setTimeout(() => setImmediate(() => resolve('silent')), PROBE_MS)
    })
  } finally {
    socket.close()
  }
}
