/** Client addresses as the limits count them. */
import { isIP, isIPv6, SocketAddress } from 'node:net'

/** What counts as one address: an IPv6 client owns a whole /64, so its lower half says nothing. */
export function subjectOf(address: string): string {
  // Most are IPv4, and this runs on every request.
  if (!address.includes(':')) return address
  // Some proxies write the port too.
  const bare = /^\[(.*)\](?::\d+)?$/.exec(address)?.[1] ?? /^([\d.]+):\d+$/.exec(address)?.[1] ?? address
  if (!isIPv6(bare)) return isIP(bare) === 0 ? 'unknown' : bare
  // The runtime writes every form of an address in one: lower case, no leading zeros, IPv4 in dots.
  const normal = new SocketAddress({ address: bare.replace(/%.*$/, ''), family: 'ipv6' }).address
  const mapped = /^::ffff:([\d.]+)$/.exec(normal)?.[1]
  if (mapped !== undefined) return mapped
  const [head = '', tail] = normal.split('::')
  const front = head.split(':').filter((group) => group !== '')
  const back = (tail ?? '').split(':').filter((group) => group !== '')
  const zeros = tail === undefined ? 0 : 8 - front.length - back.length
  const groups = [...front, ...Array.from({ length: Math.max(0, zeros) }, () => '0'), ...back]
  return `${groups.slice(0, 4).join(':')}::/64`
}
