/**
 * Invite tokens (SPEC.md, 6.1): a string with which an agent can join a channel. It is a secret: anyone who presents
 * it first can use it. Only the people involved see it, never the API and never the relay.
 *
 *     st_inv_ + base64url: version(1) = 2, flags(1), expiry(8, milliseconds), secret S(32), SHA-256 of the owner's
 *     key(32), channel id(16), [SHA-256 of the box key(32)], name behind its length(1), relay name behind its length(1)
 *
 * Flags: 1 if members may admit, 2 if the owner asks for a proof; then the box key follows, which the relay has.
 */
import {
  AGENT_ID_BYTES,
  CHANNEL_ID_BYTES,
  type ChannelName,
  isChannelName,
  MAX_NAME_LENGTH,
  StaticError,
} from '@static/protocol'
import { concat, fromBase64url, latin1, toBase64url, utf8, viewOf } from '../platform/bytes.ts'
import type { Admit, Time } from '../ports/index.ts'

const PREFIX = 'st_inv_'
const VERSION = 2
/** The flags; no other is known, and an invite has at most one of them. */
const BY_MEMBERS = 1
const ASKS_FOR_PROOF = 2
const FLAGS: ReadonlySet<number> = new Set([0, BY_MEMBERS, ASKS_FOR_PROOF])
const BOX_KEY_HASH_BYTES = 32
export const SECRET_BYTES = 32
const HEAD_BYTES = 2 + 8 + SECRET_BYTES + AGENT_ID_BYTES + CHANNEL_ID_BYTES
const MAX_RELAY_LENGTH = 253
/** Host names and IP addresses. Error messages show the name, so other characters are not allowed. */
const RELAY_NAME = /^[\w.:[\]-]+$/

export interface InviteToken {
  /** Whose Welcome the joiner accepts: with `owner`, only the owner's. */
  readonly admit: Admit
  readonly expiresAt: Time
  /** S, the secret. */
  readonly secret: Uint8Array
  /** The owner's agent id. */
  readonly owner: Uint8Array
  readonly channelId: Uint8Array
  readonly name: ChannelName
  /**
   * The relay's name, to compare with the configured one. This agent never sends anything to an address from a token.
   */
  readonly relay: string
  /** If the owner asks for a proof: SHA-256 of its key for the join request, which the joiner gets from the relay. */
  readonly boxKeyHash?: Uint8Array | undefined
}

export function encodeToken(token: InviteToken): string {
  const head = new Uint8Array(10)
  head[0] = VERSION
  head[1] = token.boxKeyHash ? ASKS_FOR_PROOF : token.admit === 'members' ? BY_MEMBERS : 0
  viewOf(head).setBigUint64(2, BigInt(token.expiresAt))
  const texts = [token.name, token.relay].flatMap((text) => {
    const bytes = utf8(text)
    return [Uint8Array.of(bytes.length), bytes]
  })
  const { secret, owner, channelId, boxKeyHash = new Uint8Array() } = token
  return `${PREFIX}${toBase64url(concat(head, secret, owner, channelId, boxKeyHash, ...texts))}`
}

/**
 * Decodes a token.
 *
 * @throws {StaticError} `invite_invalid`
 */
export function decodeToken(text: string): InviteToken {
  // JavaScript callers and callers from other languages can pass anything.
  const bytes = typeof text === 'string' ? bytesOf(text.trim()) : undefined
  const [version = 0, flags = 0] = bytes ?? []
  if (version === 1) invalid('The invite token was made by an older version of Static. Ask for a new one.')
  if (version > VERSION || (version === VERSION && !FLAGS.has(flags)))
    invalid('The invite token was made by a newer version of Static. Update Static.')
  const token = bytes && parse(bytes)
  return token ?? invalid('The invite token is damaged or incomplete. Copy all of it again.')
}

/** Rejects a well-formed token that does not apply here. */
export function invalid(message: string): never {
  throw StaticError.of('invite_invalid', message)
}

/** The bytes of a text that is long enough for a token. */
function bytesOf(text: string): Uint8Array | undefined {
  const bytes = text.startsWith(PREFIX) ? fromBase64url(text.slice(PREFIX.length)) : undefined
  return bytes && bytes.length >= HEAD_BYTES + 2 ? bytes : undefined
}

function parse(bytes: Uint8Array): InviteToken | undefined {
  if (bytes[0] !== VERSION) return undefined
  const flags = bytes[1]
  const admit: Admit = flags === BY_MEMBERS ? 'members' : 'owner'
  let at = 10
  const read = (length: number): Uint8Array => Uint8Array.from(bytes.subarray(at, (at += length)))
  const [secret, owner, channelId] = [read(SECRET_BYTES), read(AGENT_ID_BYTES), read(CHANNEL_ID_BYTES)]
  const boxKeyHash = flags === ASKS_FOR_PROOF ? read(BOX_KEY_HASH_BYTES) : undefined
  const readText = (most: number): string | undefined => {
    const length = bytes[at++] ?? most + 1
    if (length > most || at + length > bytes.length) return undefined
    return latin1(read(length))
  }
  const name = readText(MAX_NAME_LENGTH)
  const relay = name === undefined ? undefined : readText(MAX_RELAY_LENGTH)
  const expiresAt = Number(viewOf(bytes).getBigUint64(2))
  if (name === undefined || relay === undefined || at !== bytes.length) return undefined
  if (!isChannelName(name) || !RELAY_NAME.test(relay) || !Number.isSafeInteger(expiresAt)) return undefined
  const token = { admit, expiresAt, secret, owner, channelId, name, relay }
  return boxKeyHash ? { ...token, boxKeyHash } : token
}
