/** Sign-up invites: who may sign up, and the invite that a sign-up uses up. */
import { type SignupMode, StaticError } from '@static/protocol'
import { opens, parseOneTimeToken } from '../secrets/one-time-token.ts'
import { admitAttempt } from './attempts.ts'
import type { Limits } from './limits.ts'
import type { RateContext } from './rate-policy.ts'
import type { Clock, LinkStore, OneTimeToken } from '../ports.ts'

export class SignUpInvites {
  readonly mode: SignupMode
  readonly #links: Pick<LinkStore, 'find'>
  readonly #limits: Limits
  readonly #now: Clock

  constructor(mode: SignupMode, links: Pick<LinkStore, 'find'>, limits: Limits, now: Clock) {
    this.mode = mode
    this.#links = links
    this.#limits = limits
    this.#now = now
  }

  /** Throws `signup_closed` if sign-up is closed. */
  requireOpen(): void {
    if (this.mode === 'closed') throw StaticError.of('signup_closed')
  }

  /**
   * The invite that the new account uses up; undefined if sign-up is open. Throws `signup_invite_invalid`. Only the
   * transaction that creates the account decides; this check saves work for an invite that cannot be used.
   */
  async check(text: string | undefined, context: RateContext): Promise<OneTimeToken | undefined> {
    if (this.mode === 'open') return undefined
    if (text === undefined) throw StaticError.of('signup_invite_invalid')
    const attempt = await admitAttempt(this.#limits, context)
    const token = parseOneTimeToken('su', text)
    const link = token && (await this.#links.find(token.selector))
    if (!token || !opens(token, link, this.#now()) || link.accountId !== null) throw inviteInvalid()
    await attempt.refund()
    return token
  }
}

/** The error for an invite that cannot be used. */
export function inviteInvalid(): StaticError {
  return StaticError.of(
    'signup_invite_invalid',
    'The sign-up invite is unknown, mistyped, expired or already used. Ask the operator of this server for a new one.',
  )
}
