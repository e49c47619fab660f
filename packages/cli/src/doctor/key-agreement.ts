/** Says which connections stay closed to someone who records them and has a quantum computer one day (SECURITY.md). */
import { HYBRID_GROUP } from '@static/node/tls-groups'
import { type Finding, ok } from './finding.ts'

/** A connection that was checked, and the group that it agreed on. */
export interface CheckedConnection {
  readonly name: string
  /** Undefined if this version of Node does not tell. */
  readonly group: string | undefined
}

/** The library for QUIC offers nothing else. */
export const QUIC_CONNECTION: CheckedConnection = { name: 'relay over QUIC', group: 'X25519' }

/** One finding for all connections; none if there was no connection. */
export function keyAgreement(connections: readonly CheckedConnection[]): Finding[] {
  if (connections.length === 0) return []
  const groups = new Map(connections.map(({ name, group }) => [name, group]))
  const texts = [...groups].map(([name, group]) => `${name}: ${group ?? 'unknown'}${kindOf(group)}`)
  return [ok('key agreement', `${texts.join(', ')}. Messages are sealed in addition`)]
}

function kindOf(group: string | undefined): string {
  if (group === undefined) return ''
  return group === HYBRID_GROUP ? ' (post-quantum hybrid)' : ' (not post-quantum)'
}
