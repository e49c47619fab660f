/**
 * Shares of an address in the limits of servers. An IPv6 client usually has a /64, so that counts as one address. A /48
 * contains 65,536 of them, so all of a /48 together get only a few times the limit of one address.
 */

/** How many times the limit of one address a /48 gets. More than one, because a /48 may serve many customers. */
export const NETWORK_SHARES = 16

/** The largest share of a total that one /48 can take. */
const MOST_OF_TOTAL = 3 / 4

/**
 * The key that limits count as one address: an IPv4 address (even mapped into IPv6), or the /64 network of one IPv6
 * user.
 */
export function addressKey(address: string): string {
  if (!address.includes(':')) return address
  const groups = groupsOf(address)
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  if (isMapped) return groups.slice(6).map(twoBytes).join('.')
  const network = groups.slice(0, 4).map((group) => group.toString(16))
  return `${network.join(':')}::/64`
}

/** The /48 of an address in the form of `addressKey` (`2001:db8:0:1::/64`); undefined for anything else. */
export function networkOf(address: string): string | undefined {
  const groups = /^([\da-f]{1,4}:[\da-f]{1,4}:[\da-f]{1,4}):[\da-f]{1,4}::\/64$/.exec(address)
  return groups ? `${groups[1]}::/48` : undefined
}

/** The key for limits with equal shares: an address in the form of `addressKey`, but one key for all of a /48. */
export function sourceOf(address: string): string {
  return networkOf(address) ?? address
}

/** The limit of a /48, given the limit of an address and the total. */
export function networkLimit(limit: number, total: number = Infinity): number {
  return Math.max(limit, Math.min(limit * NETWORK_SHARES, Math.floor(total * MOST_OF_TOTAL)))
}

/** The eight groups of an IPv6 address, whose last two may be written as IPv4. */
function groupsOf(address: string): number[] {
  const [head = [], tail = []] = address.split('::').map((part) => part.split(':').flatMap(numbersOf))
  const zeros = Array.from({ length: Math.max(0, 8 - head.length - tail.length) }, () => 0)
  return [...head, ...zeros, ...tail]
}

function numbersOf(group: string): number[] {
  if (group === '') return []
  const [first = 0, second = 0, third = 0, fourth = 0] = group.split('.').map(Number)
  return group.includes('.') ? [first * 256 + second, third * 256 + fourth] : [Number.parseInt(group, 16)]
}

function twoBytes(group: number): string {
  return `${group >>> 8}.${group & 0xff}`
}
