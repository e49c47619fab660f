/** The addresses of the relay and the API, as users write them. */
import { isIP, isIPv6 } from 'node:net'
import { domainToASCII } from 'node:url'
import { StaticError } from '@static/protocol'

/** A validated relay address. */
export interface Endpoint {
  readonly way: 'quic' | 'grpc'
  /** A DNS name, or an IP address without brackets. */
  readonly host: string
  readonly port: number
  /** The name that the relay's certificate must contain. */
  readonly serverName: string
  /** Normalized, always with a port, so that the same relay always has the same URL. */
  readonly url: string
}

const QUIC_PORT = 4433
const GRPC_PORT = 5000
/** Scheme, host and port. A relay address has no user and no path. */
const ENDPOINT = /^(quic|https):\/\/(\[[^\]]*\]|[^\s[\]@:/?#\\]+)(?::(\d{1,5}))?\/?$/i
const LABEL = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/

/**
 * Parses `quic://host:4433` or `https://host:5000`. These ports are the defaults; IPv6 addresses need brackets. The
 * server name of an IP address is `relayName`, or `localhost` for loopback addresses.
 *
 * @throws {StaticError} `invalid_request` for anything else
 */
export function parseEndpoint(text: string, { relayName }: { readonly relayName?: string | undefined } = {}): Endpoint {
  const [, scheme, written, digits] = ENDPOINT.exec(text) ?? []
  if (scheme === undefined || written === undefined) {
    throw invalid(`Invalid endpoint ${quoted(text)}. Use quic://host:${QUIC_PORT} or https://host:${GRPC_PORT}.`)
  }
  const host = written.startsWith('[') ? parseIPv6(written.slice(1, -1)) : parseHost(written)
  if (host === undefined)
    throw invalid(`Invalid host in the endpoint ${quoted(text)}. Use a DNS name or an IP address.`)
  const way = scheme.toLowerCase() === 'quic' ? 'quic' : 'grpc'
  const port = digits === undefined ? (way === 'quic' ? QUIC_PORT : GRPC_PORT) : Number(digits)
  if (port < 1 || port > 65_535)
    throw invalid(`Invalid port in the endpoint ${quoted(text)}. It must be from 1 to 65535.`)
  return endpointOf(way, host, port, serverNameOf(host, relayName))
}

/** The gRPC endpoint of the same relay: the same host, at the usual port. */
export function grpcFallback({ host, serverName }: Endpoint): Endpoint {
  return endpointOf('grpc', host, GRPC_PORT, serverName)
}

/** Whether a host is the local machine. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

/**
 * Parses the URL of the API and removes trailing slashes.
 *
 * @throws {StaticError} `invalid_request` unless it is https, without user, query or fragment
 */
export function parseApiUrl(text: string): string {
  const url = URL.parse(text)
  if (url === null) throw invalid('The API URL is not a URL. It must look like https://api.example.')
  if (url.protocol !== 'https:') throw invalid(`The API URL must start with https://, not ${url.protocol}//.`)
  if (url.username !== '' || url.password !== '') throw invalid('The API URL contains a user or password. Remove it.')
  if (url.search !== '' || url.hash !== '') throw invalid('The API URL contains a query or fragment. Remove it.')
  return url.href.replace(/\/+$/, '')
}

function endpointOf(way: Endpoint['way'], host: string, port: number, serverName: string): Endpoint {
  const scheme = way === 'quic' ? 'quic' : 'https'
  return { way, host, port, serverName, url: `${scheme}://${isIPv6(host) ? `[${host}]` : host}:${port}` }
}

function serverNameOf(host: string, relayName: string | undefined): string {
  const name = relayName === undefined ? undefined : parseName(relayName)
  if (relayName !== undefined && name === undefined) {
    throw invalid(`Invalid relay name ${quoted(relayName)}. Use the DNS name in the relay's certificate.`)
  }
  if (isIP(host) === 0) return host
  if (name !== undefined) return name
  if (isLoopback(host)) return 'localhost'
  throw invalid(
    `The endpoint is an IP address (${host}). Set \`relayName\` or STATIC_RELAY_NAME to the name in its certificate.`,
  )
}

function parseHost(text: string): string | undefined {
  return isIP(text) === 4 ? text : parseName(text)
}

/** Normalized as in URLs. Zones are rejected, because no certificate contains one. */
function parseIPv6(text: string): string | undefined {
  if (!isIPv6(text) || text.includes('%')) return undefined
  return URL.parse(`https://[${text}]`)?.hostname.slice(1, -1)
}

/** A DNS name in lower-case ASCII. A name that ends in a number is a mistyped IP address. */
function parseName(text: string): string | undefined {
  const name = domainToASCII(text.replace(/\.$/, '')).toLowerCase()
  const labels = name.split('.')
  const isName = name.length <= 253 && labels.every((label) => LABEL.test(label))
  return isName && !/^\d+$/.test(labels.at(-1) ?? '') ? name : undefined
}

/** Quotes text in an error message, without any credentials before the host. */
function quoted(text: string): string {
  return JSON.stringify(text.replace(/\/\/[^/]*@/, '//…@').slice(0, 100))
}

function invalid(message: string): StaticError {
  return StaticError.of('invalid_request', message)
}
