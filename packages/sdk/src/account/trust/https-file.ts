/**
 * Fetches a small public file over HTTPS: no redirects, public addresses only, at most 64 KiB and 5 s (SPEC.md, 7.3).
 * The name is resolved once and the connection goes to that address, so that DNS cannot answer differently in between.
 */
import { lookup } from 'node:dns/promises'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { isIP, isIPv6, type LookupFunction } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { isErrno } from '@static/node/files'
import { MAX_KEYS_BYTES } from '../../proofs/keys.ts'
import type { Pin } from '../../proofs/roots.ts'
import { isProxied, type Proxy, throughProxy } from './proxy.ts'
import { isPublicAddress } from './public-address.ts'

/** How a file is reached. */
export interface Way {
  readonly pin?: Pin | undefined
  readonly proxy?: Proxy | undefined
  /** Private addresses as well, for a URL that this machine is configured with. */
  readonly anyAddress?: boolean
  /** Sent with the request. */
  readonly authorization?: string
}

/** The addresses of a host. */
export type Resolve = (host: string) => Promise<readonly string[]>

const TIMEOUT_MS = 5000
const HTTPS_PORT = 443

/**
 * The content of a file, which is one byte longer than the limit if the file is too long.
 *
 * @throws {Error} whose message says why it is out of reach
 */
export async function fetchHttpsFile(url: URL, way: Way, resolve: Resolve = addressesOf): Promise<Buffer> {
  if (url.protocol !== 'https:' || url.username !== '' || url.password !== '')
    throw new Error('it is not an https address')
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  try {
    const resolveInTime: Resolve = (host) => Promise.race([resolve(host), aborted(signal)])
    return await answered(url, await routeTo(url, way, signal, resolveInTime), way, signal)
  } catch (error) {
    if (signal.aborted) throw new Error(`no answer within ${TIMEOUT_MS / 1000} s`, { cause: error })
    throw error
  }
}

/** The options of a request that decide where it goes. */
type Route = Pick<Parameters<typeof request>[1] & object, 'agent' | 'lookup' | 'port' | 'createConnection'>

async function routeTo(
  url: URL,
  { pin, proxy, anyAddress = false }: Way,
  signal: AbortSignal,
  resolve: Resolve,
): Promise<Route> {
  const host = url.hostname.replaceAll(/[[\]]/g, '')
  if (pin?.address === undefined && proxy !== undefined && isProxied(proxy, host)) {
    const socket = await throughProxy(proxy, `${url.hostname}:${url.port || HTTPS_PORT}`, signal)
    return {
      createConnection: () => connectTls({ socket, servername: isIP(host) === 0 ? host : '', host, ...trustOf(pin) }),
    }
  }
  const { address, port } =
    pin?.address === undefined ? { address: await resolved(host, anyAddress, resolve) } : splitAddress(pin.address)
  const family = isIPv6(address) ? 6 : 4
  const fixed: LookupFunction = (_host, { all }, done) => {
    if (all) done(null, [{ address, family }])
    else done(null, address, family)
  }
  return { agent: false, lookup: fixed, ...(port === undefined ? {} : { port }) }
}

async function answered(url: URL, route: Route, { pin, authorization }: Way, signal: AbortSignal): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const sent = request(url, {
    signal,
    headers: { host: url.host, accept: 'application/json', ...(authorization === undefined ? {} : { authorization }) },
    ...trustOf(pin),
    ...route,
  })
  sent.on('response', resolve)
  sent.on('error', reject)
  // With an answer that changes the protocol, Node reports nothing else, and a later abort no longer does either.
  sent.on('close', () => reject(new Error('the server ended the connection without an answer')))
  sent.end()
  const response = await promise
  try {
    if (response.statusCode !== 200) throw new Error(`the server answered with HTTP status ${response.statusCode}`)
    return await contentOf(response)
  } finally {
    sent.destroy()
  }
}

/** Regardless of NODE_TLS_REJECT_UNAUTHORIZED. */
function trustOf(pin: Pin | undefined): { readonly rejectUnauthorized: true; readonly ca?: string } {
  return { rejectUnauthorized: true, ...(pin?.ca === undefined ? {} : { ca: pin.ca }) }
}

async function contentOf(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    length += chunk.length
    if (length > MAX_KEYS_BYTES) break
  }
  return Buffer.concat(chunks).subarray(0, MAX_KEYS_BYTES + 1)
}

/** Rejects when the time is over: a lookup cannot be cancelled. */
async function aborted(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>()
  signal.addEventListener('abort', () => reject(new Error('too late')), { once: true })
  return await promise
}

async function resolved(host: string, anyAddress: boolean, resolve: Resolve): Promise<string> {
  const found = isIP(host) === 0 ? await resolve(host) : [host]
  const address = anyAddress ? found[0] : found.find(isPublicAddress)
  if (address === undefined) throw new Error(`${host} has no public address`)
  return address
}

async function addressesOf(host: string): Promise<readonly string[]> {
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address)
  } catch (error) {
    const isUnknown = isErrno(error, 'ENOTFOUND')
    throw new Error(isUnknown ? `${host} does not exist` : `${host} cannot be resolved`, { cause: error })
  }
}

/** The parts of a pinned address: an IP address, with or without a port. */
export function splitAddress(text: string): { readonly address: string; readonly port?: number | undefined } {
  const [, six, four, port] = /^(?:\[([\da-f:.]+)\]|([\d.]+))(?::(\d{1,5}))?$/i.exec(text) ?? []
  const address = six ?? four ?? text
  if (isIP(address) === 0 || Number(port ?? 0) > 65_535)
    throw new Error(`${text} is not an IP address with or without a port`)
  return { address, ...(port === undefined ? {} : { port: Number(port) }) }
}
