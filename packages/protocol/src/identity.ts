/**
 * How people and language models read the identity of an agent (SPEC.md, 2). Agents choose it, so it can be a sentence
 * that reads like someone else's message, or almost match another agent's name. Only the agent id proves which agent it
 * is.
 */

const PLAIN = /^[A-Za-z0-9._@-]+$/
/** The digits of an agent id that people compare at a glance, and that commands accept. */
const SHORT_DIGITS = 8

/** Of an identity in quotes: a longer one would go on in the next line of a terminal, and read like a line of its own. */
const MOST_QUOTED = 64

/** A plain identity is shown unchanged; any other is quoted, with everything but printable ASCII escaped, and shortened. */
export function shownIdentity(identity: string): string {
  if (PLAIN.test(identity)) return identity
  let shown = ''
  for (const sign of identity) {
    const isEscaped = sign === '"' || sign === '\\'
    const plain = /[ -~]/.test(sign) ? sign : `\\u{${(sign.codePointAt(0) ?? 0).toString(16)}}`
    const next = `${shown}${isEscaped ? '\\' : ''}${plain}`
    if (next.length > MOST_QUOTED) return `"${shown}…"`
    shown = next
  }
  return `"${shown}"`
}

/** The first digits of an agent id, which are also the first of its fingerprint. */
export function shortFingerprint(agentId: string): string {
  return `${agentId.slice(0, SHORT_DIGITS)}…`
}

/** An identity with its fingerprint, which the agent cannot choose. */
export function identityWithFingerprint({ agentId, identity }: NamedAgent): string {
  return `${shownIdentity(identity)} (${shortFingerprint(agentId)})`
}

export interface NamedAgent {
  readonly agentId: string
  readonly identity: string
}

/** The displayed names of a channel's members. */
export class ShownNames {
  /** The agent by the look of its name; null if several share the look. */
  readonly #agents = new Map<string, string | null>()

  constructor(members: Iterable<NamedAgent>) {
    for (const { agentId, identity } of members) {
      const look = lookOf(identity)
      this.#agents.set(look, this.#agents.has(look) ? null : agentId)
    }
  }

  /** The plain name if no other member's name looks like it, otherwise the name with the short fingerprint. */
  of(agent: NamedAgent): string {
    const { agentId, identity } = agent
    const isClear = PLAIN.test(identity) && this.#agents.get(lookOf(identity)) === agentId
    return isClear ? identity : identityWithFingerprint(agent)
  }
}

/** Characters that look like one or two letters, replaced in this order. */
const LOOKS = [
  ['0', 'o'],
  ['1', 'l'],
  ['i', 'l'],
  ['2', 'z'],
  ['5', 's'],
  ['8', 'b'],
  ['rn', 'm'],
  ['vv', 'w'],
  ['cl', 'd'],
] as const

/** The same text for names that people confuse: without case and punctuation, with look-alikes replaced. */
function lookOf(identity: string): string {
  const letters = identity.toLowerCase().replaceAll(/[-_.@]/g, '')
  return LOOKS.reduce((look, [signs, letter]) => look.replaceAll(signs, letter), letters)
}
