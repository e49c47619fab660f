/** Finds who uses the most of memory that all streams share. */
import { NETWORK_SHARES } from '@static/protocol'

/** A stream of a peer. */
interface Owned {
  /** The peer's address in the form that limits count, and its /48; if it has none, the address again. */
  readonly address: string
  readonly network: string
}

interface Holder<Item> {
  bytes: number
  readonly streams: Item[]
}

/**
 * The streams of the address that holds the most, so that many streams of one address count like a single one. The
 * owner of a /48 has 65,536 subnets, so the addresses of a /48 count together, as at most 16 of them.
 */
export function heaviest<Item extends Owned>(
  streams: Iterable<Item>,
  bytesOf: (stream: Item) => number,
): readonly Item[] {
  const networks = new Map<string, Map<string, Holder<Item>>>()
  for (const stream of streams) {
    const bytes = bytesOf(stream)
    if (bytes === 0) continue
    const { address, network } = stream
    const addresses = networks.get(network) ?? new Map<string, Holder<Item>>()
    networks.set(network, addresses)
    const holder = addresses.get(address) ?? { bytes: 0, streams: [] }
    addresses.set(address, holder)
    holder.bytes += bytes
    holder.streams.push(stream)
  }
  const addresses = most([...networks.values()], shareOf)
  return most([...(addresses?.values() ?? [])], ({ bytes }) => bytes)?.streams ?? []
}

/** What each address of a network holds, if it has as many addresses as count. */
function shareOf(addresses: ReadonlyMap<string, Holder<unknown>>): number {
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
