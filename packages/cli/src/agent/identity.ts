/** Which agent a command means, and where it lives. */
import { createHash } from 'node:crypto'
import { hostname, userInfo } from 'node:os'
import { join } from 'node:path'

const LONGEST_NAME = 200

/** What the agent of this user on this machine calls itself: in one channel no two may have the same identity. */
export function defaultIdentity(): string {
  return process.env['STATIC_IDENTITY'] || `${userName()}@${hostname()}`
}

/** The directory of an agent: its identity, with everything that is not plain in a file name as %XX. */
export function agentDirectory(agents: string, identity: string): string {
  const encoded = [...Buffer.from(identity)]
    .map((byte, at) => {
      const sign = String.fromCodePoint(byte)
      const plain = /[\w@+=,-]/.test(sign) || (sign === '.' && at > 0)
      return plain ? sign : `%${byte.toString(16).padStart(2, '0').toUpperCase()}`
    })
    .join('')
  // Too long for a file system: by its hash. No encoded byte begins like this.
  if (encoded.length > LONGEST_NAME) {
    return join(agents, `%sha256-${createHash('sha256').update(identity).digest('hex')}`)
  }
  return join(agents, encoded)
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    // A container's user may have no name.
    return `user-${process.geteuid?.() ?? 0}`
  }
}
