/** Addresses of peers as the limits see them. */
import { SocketAddress } from 'node:net'

/** A peer's address in one form: an IPv4 address that came as IPv6 is IPv4. */
export function plainAddress(address: string | undefined): string {
  const bare = (address ?? '').replace(/%.*$/, '')
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare)?.[1] ?? bare
}

/** What counts as one address: an IPv6 client owns a whole /64, so its lower half says nothing. */
export function addressSubject(address: string): string {
  if (!address.includes(':')) return address
  // The runtime writes every form of an address in one: lower case, no leading zeros.
  const [front = [], back = []] = new SocketAddress({ address, family: 'ipv6' }).address
    .split('::')
    .map((half) => half.split(':').filter((group) => group !== ''))
  const zeros = Array.from({ length: 8 - front.length - back.length }, () => '0')
  return [...front, ...zeros, ...back].slice(0, 4).join(':')
}
