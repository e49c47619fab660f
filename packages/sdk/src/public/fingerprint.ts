/** Agent ids in a form for people: the same 64 digits, in groups that can be read aloud. */
import { AGENT_ID_BYTES, StaticError } from '@static/protocol'
import type { AgentId } from '../ports/index.ts'

const DIGITS = new RegExp(`^[0-9a-f]{${2 * AGENT_ID_BYTES}}$`)

/** Formats an agent id as a fingerprint: groups of four digits. */
export function fingerprintOf(agentId: AgentId): string {
  return agentId.replaceAll(/(.{4})(?=.)/g, '$1 ')
}

/**
 * Parses an agent id or a fingerprint.
 *
 * @throws {StaticError} `invalid_request`
 */
export function parseAgentId(text: string): AgentId {
  // JavaScript callers and callers from other languages can pass anything.
  const digits = typeof text === 'string' ? text.replaceAll(/[\s:]/g, '').toLowerCase() : ''
  if (!DIGITS.test(digits)) {
    const given = typeof text === 'string' ? JSON.stringify(text.slice(0, 100)) : `A value of type ${typeof text}`
    throw StaticError.of(
      'invalid_request',
      `${given} is not an agent id or fingerprint: ${2 * AGENT_ID_BYTES} hexadecimal digits.`,
    )
  }
  return digits
}
