/** The default identity of an agent, and the directory of an identity. */
import { createHash } from 'node:crypto'
import { hostname, userInfo } from 'node:os'
import { join } from 'node:path'

const LONGEST_NAME = 200

/** The default identity, `user@host`: distinct per user and machine, because identities in a channel must be unique. */
export function defaultIdentity(): string {
  return process.env['STATIC_IDENTITY'] || `${userName()}@${hostname()}`
}

/** The directory of an agent: its identity, with bytes that are unsafe in a file name encoded as %XX. */
export function agentDirectory(agents: string, identity: string): string {
  const encoded = [...Buffer.from(identity)]
    .map((byte, at) => {
      const sign = String.fromCodePoint(byte)
      const plain = /[\w@+=,-]/.test(sign) || (sign === '.' && at > 0)
      return plain ? sign : `%${byte.toString(16).padStart(2, '0').toUpperCase()}`
    })
    .join('')
  // Too long for a file system: use its hash. `%s` cannot collide with an encoded byte.
  if (encoded.length > LONGEST_NAME) {
    return join(agents, `%sha256-${createHash('sha256').update(identity).digest('hex')}`)
  }
  return join(agents, encoded)
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    // In a container the user id may have no name.
    return `user-${process.geteuid?.() ?? 0}`
  }
}
