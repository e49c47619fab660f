/**
 * Shares of an address in the limits of servers. An IPv6 client usually has a /64, so that counts as one address. Who
 * has a /48 has 65,536 of them, so all of a /48 together get the limits of a few addresses only.
 */

/** How many times the limit of one address a /48 gets. More than one, because it may serve many customers. */
export const NETWORK_SHARES = 16

/** The most of a total that one /48 can take. */
const MOST_OF_TOTAL = 3 / 4

/** The /48 of an address in the form that limits count by (`2001:db8:0:1::/64`); undefined for all else. */
export function networkOf(address: string): string | undefined {
  const groups = /^([\da-f]{1,4}:[\da-f]{1,4}:[\da-f]{1,4}):[\da-f]{1,4}::\/64$/.exec(address)
  return groups ? `${groups[1]}::/48` : undefined
}

/** The limit of a /48, from the limit of an address and that of all together. */
export function networkLimit(limit: number, total: number = Infinity): number {
  return Math.max(limit, Math.min(limit * NETWORK_SHARES, Math.floor(total * MOST_OF_TOTAL)))
}
