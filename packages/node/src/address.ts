/** Addresses of peers: normalized, and as rate limits count them. */
import { isIP, isIPv6, SocketAddress } from 'node:net'

/** Normalizes a peer's address: removes the zone, and turns `::ffff:192.0.2.1` into IPv4. */
export function plainAddress(address: string | undefined): string {
  const bare = (address ?? '').replace(/%.*$/, '')
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare)?.[1] ?? bare
}

/** The subject that rate limits count: an IPv6 client owns a whole /64, so only the upper half counts. */
export function subjectOf(address: string): string {
  // Most are IPv4, and this runs on every request.
  if (!address.includes(':')) return address
  // Some proxies include the port.
  const bare = /^\[(.*)\](?::\d+)?$/.exec(address)?.[1] ?? /^([\d.]+):\d+$/.exec(address)?.[1] ?? address
  if (!isIPv6(bare)) return isIP(bare) === 0 ? 'unknown' : bare
  // SocketAddress normalizes every form of an address: lower case, no leading zeros, IPv4 with dots.
  const normal = plainAddress(new SocketAddress({ address: bare.replace(/%.*$/, ''), family: 'ipv6' }).address)
  if (!normal.includes(':')) return normal
  const [head = '', tail] = normal.split('::')
  const front = head.split(':').filter((group) => group !== '')
  const back = (tail ?? '').split(':').filter((group) => group !== '')
  const zeros = tail === undefined ? 0 : 8 - front.length - back.length
  const groups = [...front, ...Array.from({ length: Math.max(0, zeros) }, () => '0'), ...back]
  return `${groups.slice(0, 4).join(':')}::/64`
}
