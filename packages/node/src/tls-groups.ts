/**
 * Key agreement in TLS 1.3: first X25519MLKEM768, with which a recording stays closed to a quantum computer, then what
 * older peers know. OpenSSL has it since 3.5; where it does not, TLS works as before.
 */
import { createSecureContext, type TLSSocket } from 'node:tls'

/** The hybrid of X25519 and ML-KEM-768. */
export const HYBRID_GROUP = 'X25519MLKEM768'
const CLASSICAL_GROUPS = 'X25519:P-256:P-384'

/** For `ecdhCurve`, in servers and clients. */
export const TLS_GROUPS: string = isKnown(HYBRID_GROUP) ? `${HYBRID_GROUP}:${CLASSICAL_GROUPS}` : CLASSICAL_GROUPS

/** The group that a connection has agreed on; undefined if this version of Node does not tell. */
export function groupOf(socket: TLSSocket): string | undefined {
  const info: { readonly name?: unknown } = socket.getEphemeralKeyInfo() ?? {}
  return typeof info.name === 'string' ? info.name : undefined
}

function isKnown(group: string): boolean {
  try {
    createSecureContext({ ecdhCurve: group })
    return true
  } catch {
    return false
  }
}
