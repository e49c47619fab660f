/** Agent ids for people: the same 64 digits in groups that can be read aloud. */
import { AGENT_ID_BYTES, StaticError } from '@static/protocol'
import type { AgentId } from './ports.ts'

const DIGITS = new RegExp(`^[0-9a-f]{${2 * AGENT_ID_BYTES}}$`)

/** The fingerprint of an agent's key: its id in groups of four digits. */
export function fingerprintOf(agentId: AgentId): string {
  return agentId.replaceAll(/(.{4})(?=.)/g, '$1 ')
}

/**
 * Reads an agent id or a fingerprint.
 *
 * @throws {StaticError} `invalid_request`
 */
export function parseAgentId(text: string): AgentId {
  // Callers in JavaScript and other languages are not held to the type.
  const digits = typeof text === 'string' ? text.replaceAll(/[\s:]/g, '').toLowerCase() : ''
  if (!DIGITS.test(digits)) {
    throw StaticError.of('invalid_request', `An agent id or fingerprint has ${2 * AGENT_ID_BYTES} hexadecimal digits.`)
  }
  return digits
}
