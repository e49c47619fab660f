/** An invite, and what those who join by it may be told. */

export interface Page {
  readonly token: string
  readonly maxUses: number
  readonly expiresAt: number
  revoked: boolean
  /** How often somebody has tried to join by it. */
  tries: number
}

/** What else matters. */
export interface Circumstances {
  readonly now: number
  /** The owner has removed somebody, and with it the invite that it came by and all that members know of. */
  readonly hasRemoved: boolean
  /** Somebody was killed, stopped or cut off. */
  readonly isDisturbed: boolean
}

/** Whether a joiner may be told this. */
export function mayRefuse(page: Page, code: string, { now, hasRemoved, isDisturbed }: Circumstances): boolean {
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
