/**
 * How people and language models read the identity of an agent (SPEC.md, 2). Agents choose it, so it can be a
 * sentence that reads like a message of somebody else, or nearly the name of another agent. Only the agent id proves
 * who an agent is.
 */

const PLAIN = /^[A-Za-z0-9._@-]+$/
/** As many digits of an agent id as people compare at a glance, and commands accept. */
const SHORT_DIGITS = 8

/** An identity of plain characters as it is; any other in quotes, with everything but printable ASCII escaped. */
export function shownIdentity(identity: string): string {
  if (PLAIN.test(identity)) return identity
  const escaped = Array.from(identity, (sign) => {
    if (sign === '"' || sign === '\\') return `\\${sign}`
    return /[ -~]/.test(sign) ? sign : `\\u{${(sign.codePointAt(0) ?? 0).toString(16)}}`
  })
  return `"${escaped.join('')}"`
}

/** The first digits of an agent id, which are those of its fingerprint. */
export function shortFingerprint(agentId: string): string {
  return `${agentId.slice(0, SHORT_DIGITS)}…`
}

/** An identity with the fingerprint that it cannot choose. */
export function identityWithFingerprint({ agentId, identity }: NamedAgent): string {
  return `${shownIdentity(identity)} (${shortFingerprint(agentId)})`
}

export interface NamedAgent {
  readonly agentId: string
  readonly identity: string
}

/** The names of the members of a channel. */
export class ShownNames {
  /** The agent whose name looks so; null if there are several. */
  readonly #agents = new Map<string, string | null>()

  constructor(members: Iterable<NamedAgent>) {
    for (const { agentId, identity } of members) {
      const look = lookOf(identity)
      this.#agents.set(look, this.#agents.has(look) ? null : agentId)
    }
  }

  /** The name alone if it is plain and looks like that of no other member, else with the short fingerprint. */
  of(agent: NamedAgent): string {
    const { agentId, identity } = agent
    const isClear = PLAIN.test(identity) && this.#agents.get(lookOf(identity)) === agentId
    return isClear ? identity : identityWithFingerprint(agent)
  }
}

/** What looks like a letter or two, in this order. */
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

/** The same for names that people mistake for one another: without case and punctuation, and as in the table. */
function lookOf(identity: string): string {
  const letters = identity.toLowerCase().replaceAll(/[-_.@]/g, '')
  return LOOKS.reduce((look, [signs, letter]) => look.replaceAll(signs, letter), letters)
}
