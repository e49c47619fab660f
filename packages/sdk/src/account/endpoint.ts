/** Addresses of the relay and the API, as users write them. */
import { StaticError } from '@static/protocol'
import { asciiDomain, isIPv4, isIPv6 } from '../platform/host.ts'

/** The address of a relay, or of one of its nodes. */
export interface Address {
  /** A DNS name, or an IP address without brackets. */
  readonly host: string
  readonly port: number
}

/** The validated addresses of a relay. */
export interface Endpoint {
  readonly way: 'quic' | 'grpc'
  readonly addresses: readonly [Address, ...Address[]]
  /** The name that every node's certificate must contain. */
  readonly serverName: string
  /** Normalized, always with ports, so that equal endpoints have equal text. */
  readonly url: string
}

const QUIC_PORT = 4433
export const GRPC_PORT = 5000
export const MOST_ADDRESSES = 8
/** Scheme, host and port. A relay address has no user and no path. */
const ENDPOINT = /^(quic|https):\/\/(\[[^\]]*\]|[^\s[\]@:/?#\\]+)(?::(\d{1,5}))?\/?$/i
const LABEL = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/

/**
 * Parses `quic://host:4433` or `https://host:5000`, or several of one kind, separated by commas. These ports are the
 * defaults; IPv6 addresses need brackets. The server name is `relayName`, else the host, which is `localhost` for
 * loopback addresses.
 *
 * @throws {StaticError} `invalid_request` for anything else
 */
export function parseEndpoint(text: string, { relayName }: { readonly relayName?: string | undefined } = {}): Endpoint {
  const name = relayName === undefined ? undefined : checkName(relayName)
  const [first, ...more] = text.split(',').map((part) => parseAddress(part.trim(), text))
  if (first === undefined || more.length >= MOST_ADDRESSES) {
    throw invalid(`The endpoint has ${more.length + 1} addresses. Use at most ${MOST_ADDRESSES}.`)
  }
  const { way } = first
  const serverName = name ?? serverNameOf(first.host)
  for (const other of more) {
    if (other.way !== way) throw invalid('The endpoint mixes quic:// and https://. Use one kind for all its addresses.')
    if (name === undefined && serverNameOf(other.host) !== serverName) {
      throw invalid(`The endpoint has several host names. ${NAME_IT}`)
    }
  }
  const bare = ({ host, port }: Address): Address => ({ host, port })
  return endpointOf(way, [bare(first), ...more.map(bare)], serverName)
}

/** Whether all addresses of an endpoint are on the local machine. */
export function isLocal({ addresses }: Endpoint): boolean {
  return addresses.every(({ host }) => isLoopback(host))
}

/** Whether a host is the local machine. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
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

const NAME_IT = 'Set `relayName` or STATIC_RELAY_NAME to the name in their certificates.'

function parseAddress(part: string, text: string): Address & Pick<Endpoint, 'way'> {
  const [, scheme, written, digits] = ENDPOINT.exec(part) ?? []
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
  return { way, host, port }
}

/** The text of an endpoint whose addresses are valid and normalized. */
export function endpointUrl(way: Endpoint['way'], addresses: readonly Address[]): string {
  const scheme = way === 'quic' ? 'quic' : 'https'
  return addresses.map(({ host, port }) => `${scheme}://${isIPv6(host) ? `[${host}]` : host}:${port}`).join(',')
}

function endpointOf(way: Endpoint['way'], addresses: Endpoint['addresses'], serverName: string): Endpoint {
  return { way, addresses, serverName, url: endpointUrl(way, addresses) }
}

function checkName(relayName: string): string {
  const name = parseName(relayName)
  if (name !== undefined) return name
  throw invalid(`Invalid relay name ${quoted(relayName)}. Use the DNS name in the relay's certificate.`)
}

function serverNameOf(host: string): string {
  if (!isIPv4(host) && !isIPv6(host)) return host
  if (isLoopback(host)) return 'localhost'
  throw invalid(
    `The endpoint is an IP address (${host}). Set \`relayName\` or STATIC_RELAY_NAME to the name in its certificate.`,
  )
}

function parseHost(text: string): string | undefined {
  return isIPv4(text) ? text : parseName(text)
}

/** Normalized as in URLs. Zone ids are rejected, because no certificate contains one. */
function parseIPv6(text: string): string | undefined {
  if (!isIPv6(text)) return undefined
  return URL.parse(`https://[${text}]`)?.hostname.slice(1, -1)
}

/** A DNS name in lower-case ASCII. A name whose last label is a number is a mistyped IP address. */
function parseName(text: string): string | undefined {
  const name = asciiDomain(text.replace(/\.$/, '')).toLowerCase()
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
