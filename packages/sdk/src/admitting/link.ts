/**
 * Invite links (SPEC.md, 6.4): an invite token together with everything that an agent on another machine needs to use
 * it: the relay's address, its id and its certificate authority. A link is as secret as its token.
 *
 *     static:// + base64url: version(1) = 1, way(1), gRPC port(2), number of addresses(1), each as port(2) and host
 *     behind its length(1), relay id(32), number of certificates(1), each behind its length(2), token without its
 *     prefix behind its length(2), checksum(4)
 */
import { certificateBytes, certificatePem, sha256 } from '#platform/crypto'
import { RELAY_ID_BYTES, StaticError, toHex } from '@static/protocol'
import { type Address, type Endpoint, endpointUrl, MOST_ADDRESSES, parseEndpoint } from '../account/endpoint.ts'
import { concat, fromBase64url, latin1, same, toBase64url, utf8 } from '../platform/bytes.ts'
import { decodeToken, type InviteToken } from './token.ts'

/** The parts of an invite link. */
export interface InviteLink {
  /** Addresses of the relay, in the form of the option `endpoint`. */
  readonly endpoint: string
  /** Name in the relay's certificate. */
  readonly relayName: string
  /** The relay's gRPC port, if known. */
  readonly grpcPort: number | undefined
  /** Id of the relay, 64 hexadecimal digits. */
  readonly relayId: string
  /** CA of the relay's certificate, PEM; undefined for a public one. */
  readonly ca: string | undefined
  readonly channel: string
  /** The invite token. */
  readonly token: string
  readonly expiresAt: Date
}

/** The parts of a link that are not in its token. */
export interface LinkParts {
  readonly endpoint: Endpoint
  /** 0 if unknown. */
  readonly grpcPort: number
  readonly relayId: Uint8Array
  /** PEM, with any number of certificates. */
  readonly ca: string | undefined
  readonly token: string
}

const PREFIX = 'static://'
const TOKEN_PREFIX = 'st_inv_'
const VERSION = 1
const WAYS = ['quic', 'grpc'] as const
const CHECKSUM_BYTES = 4
const CHECKSUM_CONTEXT = 'static link 1'
const MOST_CERTIFICATES = 4
/** The length limit of the whole link. */
const MOST_CHARACTERS = 8192
const PEM = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g
const NOTHING = new Uint8Array()

/** Whether a text is meant to be an invite link rather than a token. */
export function isInviteLink(text: string): boolean {
  return text.trim().startsWith(PREFIX)
}

/**
 * Encodes a link.
 *
 * @throws {StaticError} `invalid_request` if the certificate authorities do not fit into it
 */
export function encodeLink({ endpoint, grpcPort, relayId, ca, token }: LinkParts): string {
  const certificates = (ca?.match(PEM) ?? []).map(certificateBytes)
  if (certificates.length > MOST_CERTIFICATES) throw tooLarge(`${certificates.length} certificates`)
  const tokenBytes = fromBase64url(token.slice(TOKEN_PREFIX.length))
  if (!tokenBytes) throw StaticError.of('internal_error', 'An invite token of this agent is not base64url.')
  const body = concat(
    Uint8Array.of(VERSION, WAYS.indexOf(endpoint.way)),
    twoBytes(grpcPort),
    Uint8Array.of(endpoint.addresses.length),
    ...endpoint.addresses.flatMap(({ host, port }) => [twoBytes(port), Uint8Array.of(host.length), utf8(host)]),
    relayId,
    Uint8Array.of(certificates.length),
    ...certificates.flatMap((certificate) => [twoBytes(certificate.length), certificate]),
    twoBytes(tokenBytes.length),
    tokenBytes,
  )
  const text = `${PREFIX}${toBase64url(concat(body, checksum(body)))}`
  if (text.length > MOST_CHARACTERS) throw tooLarge(`a link of ${text.length} characters`)
  return text
}

/**
 * Parses an invite link without using it: sends nothing, and does not check whether it has expired.
 *
 * @throws {StaticError} `invite_invalid` if it is not a link, is damaged, or was made by a newer version
 */
export function parseInviteLink(text: string): InviteLink {
  // JavaScript callers and callers from other languages can pass anything.
  const given = typeof text === 'string' ? text.trim() : ''
  if (!given.startsWith(PREFIX)) throw invalid('This is not an invite link: it does not begin with static://.')
  const bytes = given.length > MOST_CHARACTERS ? undefined : fromBase64url(given.slice(PREFIX.length))
  const body = bytes?.subarray(0, -CHECKSUM_BYTES) ?? NOTHING
  if (bytes === undefined || body.length === 0 || !same(checksum(body), bytes.subarray(-CHECKSUM_BYTES)))
    throw damaged()
  // In every version, a link begins with its version number and ends with this checksum.
  if (body[0] !== VERSION) {
    throw invalid(`The invite link has version ${body[0]}, and this program reads version ${VERSION}. Update Static.`)
  }
  const link = readBody(body)
  if (link === undefined) throw damaged()
  return link
}

function readBody(body: Uint8Array): InviteLink | undefined {
  const reader = new Reader(body)
  const [, wayNumber = NaN] = reader.bytes(2)
  const way = WAYS[wayNumber]
  const grpcPort = reader.number(2)
  const nodes = reader.number(1)
  if (nodes < 1 || nodes > MOST_ADDRESSES) return undefined
  const addresses = Array.from({ length: nodes }, () => ({
    port: reader.number(2),
    host: latin1(reader.bytes(reader.number(1))),
  }))
  const relayId = reader.bytes(RELAY_ID_BYTES)
  const count = reader.number(1)
  if (count > MOST_CERTIFICATES) return undefined
  const certificates = Array.from({ length: count }, () => reader.bytes(reader.number(2)))
  const token = `${TOKEN_PREFIX}${toBase64url(reader.bytes(reader.number(2)))}`
  if (!reader.isAtEnd || way === undefined) return undefined
  return readParts({ way, addresses, grpcPort, relayId, certificates, token })
}

function readParts(parts: {
  readonly way: Endpoint['way']
  readonly addresses: readonly Address[]
  readonly grpcPort: number
  readonly relayId: Uint8Array
  readonly certificates: readonly Uint8Array[]
  readonly token: string
}): InviteLink | undefined {
  const { way, addresses, grpcPort, relayId, certificates, token } = parts
  // The link is not damaged, so what is wrong with its token has another reason, such as its version.
  const read: InviteToken = decodeToken(token)
  try {
    const written = endpointUrl(way, addresses)
    const endpoint = parseEndpoint(written, { relayName: read.relay })
    // A link has exactly one encoding, and points to the relay that its token is for.
    const isSame = endpoint.addresses.length === addresses.length && endpoint.url === written
    if (!isSame || endpoint.serverName !== read.relay) return undefined
    const ca = certificates.map(certificatePem).join('')
    return {
      endpoint: endpoint.url,
      relayName: endpoint.serverName,
      grpcPort: grpcPort || undefined,
      relayId: toHex(relayId),
      ca: ca || undefined,
      channel: read.name,
      token,
      expiresAt: new Date(read.expiresAt),
    }
  } catch {
    return undefined
  }
}

/** The endpoint of a link, for the agent that uses it. */
export function linkEndpoint({ endpoint, relayName }: Pick<InviteLink, 'endpoint' | 'relayName'>): Endpoint {
  return parseEndpoint(endpoint, { relayName })
}

/** The error for an agent whose relay is not the link's. `own` is the address of the agent's relay. */
export function otherRelay({ endpoint }: Pick<InviteLink, 'endpoint'>, own: string): StaticError {
  return invalid(
    `The invite link points to relay ${endpoint}, but this agent uses ${own}, and an agent cannot change its relay. ` +
      'Join as another agent: `--as NAME` on the command line, another `dataDir` in a program.',
  )
}

/** Reads numbers and bytes in order. A read past the end returns nothing and sets a flag. */
class Reader {
  readonly #bytes: Uint8Array
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  bytes(length: number): Uint8Array {
    const from = this.#at
    this.#at += length
    return Uint8Array.from(this.#bytes.subarray(from, this.#at))
  }

  number(length: 1 | 2): number {
    const bytes = this.bytes(length)
    return bytes.reduce((value, byte) => value * 256 + byte, 0)
  }
}

function checksum(body: Uint8Array): Uint8Array {
  return sha256(concat(utf8(CHECKSUM_CONTEXT), body)).subarray(0, CHECKSUM_BYTES)
}

function twoBytes(value: number): Uint8Array {
  if (value > 0xffff) throw tooLarge(`${value} does not fit into two bytes`)
  return Uint8Array.of(value >> 8, value)
}

function damaged(): StaticError {
  return invalid('The invite link is damaged or incomplete. Copy all of it again.')
}

function invalid(message: string): StaticError {
  return StaticError.of('invite_invalid', message)
}

function tooLarge(what: string): StaticError {
  return StaticError.of(
    'invalid_request',
    `The CA does not fit into an invite link: ${what}. Use a file with only the certificate that signed the relay's.`,
  )
}
