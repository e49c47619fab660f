/** The addresses at which other machines can reach this one. */
import { networkInterfaces } from 'node:os'

/** The maximum number of addresses: hosts with containers have an interface for each. */
const MOST_ADDRESSES = 8

/** Whether a server on this host listens on all addresses. */
export function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}

/** The host that means all addresses: of IPv4 alone on a machine without IPv6. */
export function anyAddress(interfaces: ReturnType<typeof networkInterfaces> = networkInterfaces()): string {
  const all = Object.values(interfaces).flatMap((list) => list ?? [])
  return all.some(({ family }) => family === 'IPv6') ? '::' : '0.0.0.0'
}

/** The addresses of this machine's interfaces, IPv4 first, without those valid only here or on one link. */
export function reachableAddresses(interfaces: ReturnType<typeof networkInterfaces> = networkInterfaces()): string[] {
  const found = Object.values(interfaces).flatMap((list) => list ?? [])
  const usable = found.filter(({ internal, address }) => !internal && !isLinkLocal(address))
  const ofFamily = (wanted: string): string[] =>
    usable.filter(({ family }) => family === wanted).map(({ address }) => address)
  return [...ofFamily('IPv4'), ...ofFamily('IPv6')].slice(0, MOST_ADDRESSES)
}

function isLinkLocal(address: string): boolean {
  return address.startsWith('169.254.') || /^fe[89ab]/i.test(address)
}
