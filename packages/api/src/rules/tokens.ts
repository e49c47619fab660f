/** Tokens: exchanges an API key for a JWT that the relay accepts for one hour. */
import { AUDIENCE, type IssuedToken, ISSUER, TOKEN_LIFETIME_SECONDS } from '@static/protocol'
import { isoTime } from './calendar.ts'
import { newId } from './id.ts'
import type { Limits } from './limits.ts'
import type { RateContext } from './rate-policy.ts'
import type { Clock, VerifiableKey } from '../ports.ts'
import type { KeyRing } from '../secrets/signing-keys.ts'
import { limitOf, type Settings } from '../settings.ts'
import type { KeyUsageBuffer } from './key-usage.ts'

export class Tokens {
  readonly #ring: KeyRing
  readonly #limits: Limits
  readonly #keyUsage: KeyUsageBuffer
  readonly #settings: Pick<Settings, 'channelBytes' | 'accountBytes' | 'fileBytes'>
  readonly #now: Clock

  constructor(
    ring: KeyRing,
    limits: Limits,
    keyUsage: KeyUsageBuffer,
    settings: Pick<Settings, 'channelBytes' | 'accountBytes' | 'fileBytes'>,
    now: Clock,
  ) {
    this.#settings = settings
    this.#ring = ring
    this.#limits = limits
    this.#keyUsage = keyUsage
    this.#now = now
  }

  /** Issues a token; with `agentId`, only that agent may use it. */
  exchange(key: VerifiableKey, agentId: string | undefined, context: RateContext): IssuedToken {
    this.#limits.tokens.spend(key.id, context)
    const now = this.#now()
    const iat = Math.floor(now / 1000)
    const exp = iat + TOKEN_LIFETIME_SECONDS
    const channelBytes = limitOf(this.#settings.channelBytes, key.plan, key.mode)
    const accountBytes = limitOf(this.#settings.accountBytes, key.plan, key.mode)
    const fileBytes = limitOf(this.#settings.fileBytes, key.plan, key.mode)
    const token = this.#ring.sign({
      sub: key.accountId,
      plan: key.plan,
      iss: ISSUER,
      aud: AUDIENCE,
      exp,
      iat,
      jti: newId(now),
      mode: key.mode,
      key: key.id,
      ...(channelBytes === null ? {} : { channel_bytes: channelBytes }),
      ...(accountBytes === null ? {} : { account_bytes: accountBytes }),
      ...(fileBytes === null ? {} : { file_bytes: fileBytes }),
      ...(agentId === undefined ? {} : { cnf: agentId }),
    })
    this.#keyUsage.recordExchange(key)
    return { token, token_type: 'Bearer', expires_in: TOKEN_LIFETIME_SECONDS, expires_at: isoTime(exp * 1000) }
  }
}
