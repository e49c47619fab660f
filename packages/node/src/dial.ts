/** Resolves a host and dials its addresses, one after the other. */
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { StaticError } from '@static/protocol'
import { ConnectionError } from './connection-error.ts'

/** The default timeout for resolving the name, and then for each address. */
export const CONNECT_TIMEOUT_MS = 5_000

/** An address and a port as text; IPv6 addresses in brackets. */
export function placeOf(address: string, port: number): string {
  return isIP(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`
}

/**
 * Dials the first IPv4 address of a host, and if that fails its first IPv6 address. If both fail, throws the error of
 * the first.
 *
 * @throws {StaticError} what `dial` throws; `connection_error` if the name cannot be resolved; `invalid_request` if the
 *   server name is not a DNS name
 */
export async function dialAddresses<Result>(
  { host, serverName }: { readonly host: string; readonly serverName: string },
  timeoutMs: number,
  dial: (address: string) => Promise<Result>,
): Promise<Result> {
  if (isIP(serverName) !== 0) {
    throw StaticError.of('invalid_request', `The server name must be a DNS name, not ${serverName}.`)
  }
  let failure: unknown
  for (const address of await resolve(host, timeoutMs)) {
    try {
      return await dial(address)
    } catch (error) {
      failure ??= error
    }
  }
  throw failure
}

/** The first address of each family, IPv4 first. */
async function resolve(host: string, timeoutMs: number): Promise<readonly [string, ...string[]]> {
  if (isIP(host) !== 0) return [host]
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error('DNS lookup timed out')), timeoutMs)
  try {
    const found = await Promise.race([lookup(host, { all: true }), late.promise])
    const first = (family: number): string | undefined => found.find((entry) => entry.family === family)?.address
    const [one, ...more] = [first(4), first(6)].filter((address) => address !== undefined)
    if (one === undefined) throw new Error('no IPv4 or IPv6 address')
    return [one, ...more]
  } catch (cause) {
    throw new ConnectionError('no_address', `The host name ${host} cannot be resolved.`, cause)
  } finally {
    clearTimeout(timer)
  }
}
