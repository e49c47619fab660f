/** Resolves a host and dials its addresses, one after the other. */
import type { LookupAddress } from 'node:dns'
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { StaticError } from '@static/protocol'
import { ConnectionError } from './connection-error.ts'

/** The default timeout for resolving the name, and then for each address. */
export const CONNECT_TIMEOUT_MS = 5_000
/** The number of addresses of one name that a dial tries. */
const MOST_ADDRESSES = 8
/** The share of the timeout for each address if a name has more than two. */
const SHARE = 0.4

export interface DialTarget {
  readonly host: string
  readonly serverName: string
  /** Address to try last, because its node has sent its sessions elsewhere. */
  readonly avoid?: string | undefined
}

/** An address and a port as text; IPv6 addresses in brackets. */
export function placeOf(address: string, port: number): string {
  return isIP(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`
}

/**
 * Dials the addresses of a host, in the order of `addressOrder`, until one answers. If all fail, throws the error of
 * the first.
 *
 * @throws {StaticError} the error of `dial`; `connection_error` if the name cannot be resolved; `invalid_request` if
 *   the server name is not a DNS name
 */
export async function dialAddresses<Result>(
  { host, serverName, avoid }: DialTarget,
  timeoutMs: number,
  dial: (address: string, timeoutMs: number) => Promise<Result>,
): Promise<Result> {
  if (isIP(serverName) !== 0) {
    throw StaticError.of('invalid_request', `The server name must be a DNS name, not ${serverName}.`)
  }
  const found = isIP(host) === 0 ? await resolve(host, timeoutMs) : [{ address: host, family: isIP(host) }]
  const addresses = addressOrder(found, avoid, Math.random)
  const each = addresses.length > 2 ? Math.ceil(timeoutMs * SHARE) : timeoutMs
  let failure: unknown
  for (const address of addresses) {
    try {
      return await dial(address, each)
    } catch (error) {
      failure ??= error
    }
  }
  throw failure
}

/**
 * The order in which to dial addresses: random, so that agents spread over the nodes of a relay, but IPv4 first,
 * because IPv6 more often leads nowhere.
 */
export function addressOrder(
  found: readonly LookupAddress[],
  avoid: string | undefined,
  random: () => number,
): readonly string[] {
  const family = (wanted: number): string[] =>
    shuffled([...new Set(found.filter((one) => one.family === wanted).map(({ address }) => address))], random)
  const all = [...family(4), ...family(6)]
  const last = all.filter((address) => address === avoid)
  return [...all.filter((address) => address !== avoid), ...last].slice(0, MOST_ADDRESSES)
}

/** The same items in random order. */
function shuffled<Item>(items: readonly Item[], random: () => number): Item[] {
  return items
    .map((item) => ({ item, rank: random() }))
    .sort((one, other) => one.rank - other.rank)
    .map(({ item }) => item)
}

async function resolve(host: string, timeoutMs: number): Promise<readonly LookupAddress[]> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error('DNS lookup timed out')), timeoutMs)
  try {
    const found = await Promise.race([lookup(host, { all: true }), late.promise])
    if (found.length === 0) throw new Error('no IPv4 or IPv6 address')
    return found
  } catch (cause) {
    throw new ConnectionError('no_address', `The host name ${host} cannot be resolved.`, cause)
  } finally {
    clearTimeout(timer)
  }
}
