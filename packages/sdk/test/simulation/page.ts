/** An invite, and what those who join by it may be told. */

export interface Page {
  readonly token: string
  readonly maxUses: number
  readonly expiresAt: number
  /** How often the channel had changed hands before. */
  readonly reign: number
  revoked: boolean
  /** How often somebody has tried to join by it. */
  tries: number
}

/** What else matters. */
export interface Circumstances {
  readonly now: number
  /** How often the channel has changed hands, which ends all invites from before. */
  readonly reign: number
  /** The owner has removed somebody, and with it the invite that it came by and all that members know of. */
  readonly hasRemoved: boolean
  /** Somebody was killed, stopped or cut off. */
  readonly isDisturbed: boolean
}

/** Whether a joiner may be told this. */
export function mayRefuse(page: Page, code: string, { now, reign, hasRemoved, isDisturbed }: Circumstances): boolean {
  // A member that entered under another owner does not know who has owned the channel before.
  if (page.reign < reign && ['invite_revoked', 'invite_invalid', 'channel_exists'].includes(code)) return true
  switch (code) {
    case 'invite_expired':
      return page.expiresAt <= now
    case 'invite_revoked':
      return page.revoked || hasRemoved
    case 'invite_used_up':
      return page.tries > page.maxUses
    default:
      return isDisturbed && (code === 'closed' || code === 'join_timeout')
  }
}
