/**
 * One-time tokens that the operator hands out (SPEC.md, "Operator links"): `pw_` for setting a password or `su_` for a
 * sign-up invite, then 10 base62 characters that find the row and 32 secret ones (190 bits). With so much randomness,
 * no slow hash is needed.
 */
import { createHash } from 'node:crypto'
import { constantTimeEqual } from '@static/node/compare'
import type { LinkRecord, OneTimeToken } from '../ports.ts'
import { base62 } from './api-key.ts'

export type TokenPurpose = 'pw' | 'su'

const SELECTOR_LENGTH = 10
const FORM = /^(pw|su)_([0-9A-Za-z]{10})([0-9A-Za-z]{32})$/

/** Creates a token: its text, and the part that is stored. */
export function makeOneTimeToken(purpose: TokenPurpose): OneTimeToken & { readonly text: string } {
  const text = `${purpose}_${base62(SELECTOR_LENGTH + 32)}`
  const parsed = parseOneTimeToken(purpose, text)
  if (!parsed) throw new Error('A generated token does not parse.')
  return { ...parsed, text }
}

/** Parses a token; `undefined` if it is malformed or has another purpose. */
export function parseOneTimeToken(purpose: TokenPurpose, text: string): OneTimeToken | undefined {
  const [, kind, selector, secret] = FORM.exec(text.trim()) ?? []
  if (kind !== purpose || selector === undefined || secret === undefined) return undefined
  return { selector, secretHash: createHash('sha256').update(secret).digest('hex') }
}

/** Whether a token matches a stored link that has not expired. The comparison takes constant time. */
export function opens(token: OneTimeToken, link: LinkRecord | undefined, now: number): link is LinkRecord {
  return link !== undefined && constantTimeEqual(token.secretHash, link.secretHash) && link.expiresAt > now
}
