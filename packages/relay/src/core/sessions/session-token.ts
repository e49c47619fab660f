/**
 * Session tokens for unary calls (SPEC.md, "Sessions"): the state of a session, under a MAC whose key all nodes of a
 * deployment share. A token is valid for 10 minutes; calls renew it for up to an hour, but never beyond the JWT.
 */
import { base64Decode, base64Encode } from '@bufbuild/protobuf/wire'
import { fromHex, MODES, toHex, type TrafficProfileName } from '@static/protocol'
import type { Account, AgentId, Time } from '../../ports.ts'
import type { CoreCrypto } from '../io.ts'

/** The authenticated sender of a request. */
export interface Caller {
  readonly agent: AgentId
  readonly publicKey: Uint8Array
  /** Undefined for a guest. */
  readonly account: Account | undefined
  /** The id of the API key behind its JWT, if the JWT names it. */
  readonly key?: string | undefined
  /** The relay's nonce from the challenge. */
  readonly nonce: Uint8Array
  readonly traffic: TrafficProfileName
  readonly cellsPerSecond: number
  /** When the JWT expires. */
  readonly expiresAt: Time | undefined
}

/** The caller of a request that is not authenticated. */
export const UNAUTHENTICATED: Caller = {
  agent: '',
  publicKey: new Uint8Array(),
  account: undefined,
  nonce: new Uint8Array(),
  traffic: 'off',
  cellsPerSecond: 0,
  expiresAt: undefined,
}

/** A caller, as stored in a token. */
export interface TokenCaller extends Caller {
  readonly openedAt: Time
  readonly validUntil: Time
}

interface Payload {
  readonly k: string
  readonly n: string
  readonly t: TrafficProfileName
  readonly c: number
  readonly s?: string
  readonly y?: string
  readonly m?: string
  readonly x?: number
  readonly o: number
  readonly v: number
}

const MAX_TOKEN_LENGTH = 1024

/** Issues and reads session tokens. */
export class SessionTokens {
  readonly #crypto: CoreCrypto
  readonly #key: Uint8Array
  readonly #lifetime: number
  readonly #total: number

  constructor(crypto: CoreCrypto, key: Uint8Array, lifetimeMs: number, totalMs: number) {
    this.#crypto = crypto
    this.#key = key
    this.#lifetime = lifetimeMs
    this.#total = totalMs
  }

  /** Issues a token for a caller whose session was opened at `openedAt`. */
  make(caller: Caller, openedAt: Time, now: Time): { readonly token: string; readonly validUntil: Time } {
    const { account, key, expiresAt } = caller
    const validUntil = Math.min(now + this.#lifetime, openedAt + this.#total, expiresAt ?? Number.MAX_SAFE_INTEGER)
    const payload: Payload = {
      k: toHex(caller.publicKey),
      n: toHex(caller.nonce),
      t: caller.traffic,
      c: caller.cellsPerSecond,
      ...(account === undefined ? {} : { s: account.id, m: account.mode }),
      ...(key === undefined ? {} : { y: key }),
      ...(expiresAt === undefined ? {} : { x: expiresAt }),
      o: openedAt,
      v: validUntil,
    }
    const bytes = new TextEncoder().encode(JSON.stringify(payload))
    return { token: `${base64Encode(bytes, 'url')}.${base64Encode(this.#mac(bytes), 'url')}`, validUntil }
  }

  /** The caller in a token; undefined if the token is forged or expired. */
  read(token: string, now: Time): TokenCaller | undefined {
    const bytes = this.#open(token)
    if (!bytes) return undefined
    const { k, n, t, c, s, y, m, x, o, v } = JSON.parse(new TextDecoder().decode(bytes)) as Payload
    if (now >= v) return undefined
    const mode = MODES.find((one) => one === m)
    const publicKey = fromHex(k)
    return {
      agent: toHex(this.#crypto.hash(publicKey)),
      publicKey,
      account: s === undefined || mode === undefined ? undefined : { id: s, mode },
      key: y,
      nonce: fromHex(n),
      traffic: t,
      cellsPerSecond: c,
      expiresAt: x,
      openedAt: o,
      validUntil: v,
    }
  }

  /** A new token, if half of the old one's lifetime has passed and it can be extended. */
  renew(caller: TokenCaller, now: Time): string | undefined {
    if (caller.validUntil - now > this.#lifetime / 2) return undefined
    const { token, validUntil } = this.make(caller, caller.openedAt, now)
    return validUntil > caller.validUntil ? token : undefined
  }

  /** The payload, if the MAC is valid. */
  #open(token: string): Uint8Array | undefined {
    if (token.length > MAX_TOKEN_LENGTH) return undefined
    const dot = token.indexOf('.')
    try {
      const bytes = base64Decode(token.slice(0, dot))
      const mac = base64Decode(token.slice(dot + 1))
      return this.#crypto.equal(mac, this.#mac(bytes)) ? bytes : undefined
    } catch {
      return undefined
    }
  }

  #mac(bytes: Uint8Array): Uint8Array {
    return this.#crypto.mac(this.#key, bytes)
  }
}
