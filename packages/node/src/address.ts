/** Addresses of peers: in one form, and as limits count them. */
import { isIP, isIPv6, SocketAddress } from 'node:net'

/** A peer's address in one form: without a zone, and IPv4 where it came as `::ffff:192.0.2.1`. */
export function plainAddress(address: string | undefined): string {
  const bare = (address ?? '').replace(/%.*$/, '')
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare)?.[1] ?? bare
}

/** What counts as one address: an IPv6 client owns a whole /64, so its lower half says nothing. */
export function subjectOf(address: string): string {
  // Most are IPv4, and this runs on every request.
  if (!address.includes(':')) return address
  // Some proxies write the port too.
  const bare = /^\[(.*)\](?::\d+)?$/.exec(address)?.[1] ?? /^([\d.]+):\d+$/.exec(address)?.[1] ?? address
  if (!isIPv6(bare)) return isIP(bare) === 0 ? 'unknown' : bare
  // The runtime writes every form of an address in one: lower case, no leading zeros, IPv4 in dots.
  const normal = plainAddress(new SocketAddress({ address: bare.replace(/%.*$/, ''), family: 'ipv6' }).address)
  if (!normal.includes(':')) return normal
  const [head = '', tail] = normal.split('::')
  const front = head.split(':').filter((group) => group !== '')
  const back = (tail ?? '').split(':').filter((group) => group !== '')
  const zeros = tail === undefined ? 0 : 8 - front.length - back.length
  const groups = [...front, ...Array.from({ length: Math.max(0, zeros) }, () => '0'), ...back]
  return `${groups.slice(0, 4).join(':')}::/64`
}
