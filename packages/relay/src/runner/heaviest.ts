/** Who takes most of a memory that all streams share. */
import { NETWORK_SHARES } from '@static/protocol'
import type { Link } from './link.ts'

interface Holder {
  bytes: number
  readonly links: Link[]
}

/**
 * The streams of the address that holds most, so that many streams of one address count like one that holds as much. Who
 * has a /48 has 65,536 addresses, so the addresses of a /48 count together, as 16 of them at most.
 */
export function heaviest(links: Iterable<Link>, bytesOf: (link: Link) => number): readonly Link[] {
  const networks = new Map<string, Map<string, Holder>>()
  for (const link of links) {
    const bytes = bytesOf(link)
    if (bytes === 0) continue
    const { address, network } = link
    const addresses = networks.get(network) ?? new Map<string, Holder>()
    networks.set(network, addresses)
    const holder = addresses.get(address) ?? { bytes: 0, links: [] }
    addresses.set(address, holder)
    holder.bytes += bytes
    holder.links.push(link)
  }
  const addresses = most([...networks.values()], shareOf)
  return most([...(addresses?.values() ?? [])], ({ bytes }) => bytes)?.links ?? []
}

/** What each address of a network holds, if it has as many as count. */
function shareOf(addresses: ReadonlyMap<string, Holder>): number {
  const bytes = [...addresses.values()].reduce((sum, holder) => sum + holder.bytes, 0)
  return bytes / Math.min(addresses.size, NETWORK_SHARES)
}

/** The first of those with the highest weight. */
function most<Item>(items: readonly Item[], weigh: (item: Item) => number): Item | undefined {
  let best: { readonly item: Item; readonly weight: number } | undefined
  for (const item of items) {
    const weight = weigh(item)
    if (!best || weight > best.weight) best = { item, weight }
  }
  return best?.item
}
