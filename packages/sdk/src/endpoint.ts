/** Where the relay and the API are, as the user writes it. */
import { isIP, isIPv6 } from 'node:net'
import { domainToASCII } from 'node:url'
import { StaticError } from '@static/protocol'

/** A relay's address that has been checked. */
export interface Endpoint {
  readonly way: 'quic' | 'grpc'
  /** A DNS name, or an address without brackets. */
  readonly host: string
  readonly port: number
  /** The name that the relay's certificate must have. */
  readonly serverName: string
  /** In normal form, the port always there: the same relay is always written the same. */
  readonly url: string
}

const QUIC_PORT = 4433
const GRPC_PORT = 5000
/** Scheme, host, port. No user, no path: a relay has none. */
const ENDPOINT = /^(quic|https):\/\/(\[[^\]]*\]|[^\s[\]@:/?#\\]+)(?::(\d{1,5}))?\/?$/i
const LABEL = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/

/**
 * Reads `quic://host:4433` or `https://host:5000`; the ports are the defaults, IPv6 stands in brackets. An IP address
 * takes its server name from `relayName`, on loopback `localhost` by default.
 *
 * @throws {StaticError} `invalid_request` for anything else
 */
export function parseEndpoint(text: string, { relayName }: { readonly relayName?: string | undefined } = {}): Endpoint {
  const [, scheme, written, digits] = ENDPOINT.exec(text) ?? []
  if (scheme === undefined || written === undefined) {
    throw invalid(`The endpoint ${quoted(text)} must look like quic://host:${QUIC_PORT} or https://host:${GRPC_PORT}.`)
  }
  const host = written.startsWith('[') ? parseIPv6(written.slice(1, -1)) : parseHost(written)
  if (host === undefined) throw invalid(`The host in the endpoint ${quoted(text)} is neither a name nor an address.`)
  const way = scheme.toLowerCase() === 'quic' ? 'quic' : 'grpc'
  const port = digits === undefined ? (way === 'quic' ? QUIC_PORT : GRPC_PORT) : Number(digits)
  if (port < 1 || port > 65_535) throw invalid(`The port in the endpoint ${quoted(text)} is not from 1 to 65535.`)
  return endpointOf(way, host, port, serverNameOf(host, relayName))
}

/** Where the same relay takes gRPC: the same host, by default at port 5000. */
export function grpcFallback(
  { host, serverName }: Endpoint,
  { grpcPort = GRPC_PORT }: { readonly grpcPort?: number } = {},
): Endpoint {
  return endpointOf('grpc', host, grpcPort, serverName)
}

/** Whether a host is this machine. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

/**
 * Reads the address of the API, without a slash at its end.
 *
 * @throws {StaticError} `invalid_request` unless it is https, without user, query and fragment
 */
export function parseApiUrl(text: string): string {
  const url = URL.parse(text)
  if (url === null) throw invalid('The API URL is not a URL: it must look like https://api.example.')
  if (url.protocol !== 'https:') throw invalid(`The API URL must begin with https://, not ${url.protocol}//.`)
  if (url.username !== '' || url.password !== '') throw invalid('The API URL must not hold a user or password.')
  if (url.search !== '' || url.hash !== '') throw invalid('The API URL must not hold a query or fragment.')
  return url.href.replace(/\/+$/, '')
}

function endpointOf(way: Endpoint['way'], host: string, port: number, serverName: string): Endpoint {
  const scheme = way === 'quic' ? 'quic' : 'https'
  return { way, host, port, serverName, url: `${scheme}://${isIPv6(host) ? `[${host}]` : host}:${port}` }
}

function serverNameOf(host: string, relayName: string | undefined): string {
  const name = relayName === undefined ? undefined : parseName(relayName)
  if (relayName !== undefined && name === undefined) {
    throw invalid(`The relay name ${quoted(relayName)} must be a DNS name, as the relay's certificate has it.`)
  }
  if (isIP(host) === 0) return host
  if (name !== undefined) return name
  if (isLoopback(host)) return 'localhost'
  throw invalid(
    `The endpoint is the address ${host}: say which name its certificate has, with \`relayName\` or STATIC_RELAY_NAME.`,
  )
}

function parseHost(text: string): string | undefined {
  return isIP(text) === 4 ? text : parseName(text)
}

/** In the form that URLs write; without a zone, which no certificate has. */
function parseIPv6(text: string): string | undefined {
  if (!isIPv6(text) || text.includes('%')) return undefined
  return URL.parse(`https://[${text}]`)?.hostname.slice(1, -1)
}

/** A DNS name in ASCII and lower case. What ends in a number is a mistyped address. */
function parseName(text: string): string | undefined {
  const name = domainToASCII(text.replace(/\.$/, '')).toLowerCase()
  const labels = name.split('.')
  const isName = name.length <= 253 && labels.every((label) => LABEL.test(label))
  return isName && !/^\d+$/.test(labels.at(-1) ?? '') ? name : undefined
}

/** As text of an error, without what someone may have put before the host. */
function quoted(text: string): string {
  return JSON.stringify(text.replace(/\/\/[^/]*@/, '//…@').slice(0, 100))
}

function invalid(message: string): StaticError {
  return StaticError.of('invalid_request', message)
}
