/** Addresses of peers: normalized, and in the form in which rate limits count them. */
import { isIP, isIPv6, SocketAddress } from 'node:net'
import { addressKey } from '@static/protocol'

/** Normalizes a peer's address: removes the zone, and turns `::ffff:192.0.2.1` into IPv4. */
export function plainAddress(address: string | undefined): string {
  const bare = (address ?? '').replace(/%.*$/, '')
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare)?.[1] ?? bare
}

/** Whether a peer is this machine. */
export function isLoopbackAddress(address: string): boolean {
  const plain = plainAddress(address)
  return plain === '::1' || plain.startsWith('127.')
}

/**
 * `addressKey` of an address as sockets and proxies write it: with a zone or a port. `unknown` if it is not an address.
 */
export function subjectOf(address: string): string {
  // Most are IPv4, and this runs on every request.
  if (!address.includes(':')) return address
  const bare = /^\[(.*)\](?::\d+)?$/.exec(address)?.[1] ?? /^([\d.]+):\d+$/.exec(address)?.[1] ?? address
  if (!isIPv6(bare)) return isIP(bare) === 0 ? 'unknown' : bare
  // SocketAddress accepts every form of an address, including embedded IPv4, but no zone.
  return addressKey(new SocketAddress({ address: bare.replace(/%.*$/, ''), family: 'ipv6' }).address)
}
