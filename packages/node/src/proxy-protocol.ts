/**
 * The header with which a load balancer announces the client of a connection: version 2 of the PROXY protocol (HAProxy,
 * "The PROXY protocol"). Version 1, which is text, is not supported.
 */
import { SocketAddress } from 'node:net'

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const PREFIX_BYTES = 16
/** Addresses need 36 bytes. Balancers add some hundred bytes about the connection, which are ignored. */
const MOST_BYTES = 2048

const VERSION = 2
const LOCAL = 0
const PROXY = 1
const UNSPECIFIED = 0x00
const TCP4 = 0x11
const TCP6 = 0x21

/** The kind of header at the start of a connection. */
export type ProxyHeader =
  /** The beginning of a header. */
  | { readonly state: 'partial' }
  /** No header, or a refused one. */
  | { readonly state: 'invalid' }
  /** A header of `length` bytes. Without an address, the balancer speaks for itself, as in its health checks. */
  | { readonly state: 'whole'; readonly length: number; readonly address: string | undefined }

const PARTIAL: ProxyHeader = { state: 'partial' }
const INVALID: ProxyHeader = { state: 'invalid' }

/** Reads the header at the beginning of a connection. */
export function readProxyHeader(bytes: Uint8Array): ProxyHeader {
  const header = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const known = Math.min(header.length, SIGNATURE.length)
  if (!header.subarray(0, known).equals(SIGNATURE.subarray(0, known))) return INVALID
  if (header.length < PREFIX_BYTES) return PARTIAL
  const [versionAndCommand = 0, family = 0] = header.subarray(SIGNATURE.length)
  const length = PREFIX_BYTES + header.readUInt16BE(PREFIX_BYTES - 2)
  if (versionAndCommand >> 4 !== VERSION || length > MOST_BYTES) return INVALID
  if (header.length < length) return PARTIAL
  const rest = header.subarray(PREFIX_BYTES, length)
  const command = versionAndCommand & 0x0f
  if (command === LOCAL || (command === PROXY && family === UNSPECIFIED)) {
    return { state: 'whole', length, address: undefined }
  }
  const address = command === PROXY ? clientOf(family, rest) : undefined
  return address === undefined ? INVALID : { state: 'whole', length, address }
}

/** Source, destination and both ports, of which only the source matters. Undefined if it is not TCP, or too short. */
function clientOf(family: number, rest: Buffer): string | undefined {
  if (family === TCP4 && rest.length >= 12) return rest.subarray(0, 4).join('.')
  if (family !== TCP6 || rest.length < 36) return undefined
  const groups = Array.from({ length: 8 }, (_, at) => rest.readUInt16BE(2 * at).toString(16))
  return new SocketAddress({ address: groups.join(':'), family: 'ipv6' }).address
}
