/** Who may decide on an approval: agent ids, names and rules, resolved to members when asking. Only ids are signed. */
import { StaticError } from '@static/protocol'
import type { AgentChannel } from '../../channel/channel.ts'
import type { AgentId } from '../../ports/index.ts'
import { domainOf } from '../../proofs/names.ts'
import { parseRule, type Rule, satisfies } from '../../proofs/rules.ts'
import { utf8Text } from '../../platform/bytes.ts'
import { shownValue } from '../options/call-options.ts'

const ID = /^[0-9a-f]{64}$/
const RULE = /^(github:|oidc:|spiffe:)/

/**
 * The members that are meant, sorted, each once.
 *
 * @throws {StaticError} `not_found` if nobody is meant, `invalid_request` if a name is that of several
 */
export function decidersOf(channel: AgentChannel, asker: AgentId, from: readonly unknown[]): readonly AgentId[] {
  const found = from.flatMap((word) => {
    const rule = ruleOf(word)
    return rule ? provenBy(channel, asker, rule) : [memberNamed(channel, word)]
  })
  return [...new Set(found)].toSorted()
}

/** A name never looks like a rule: whoever has such a name is meant by its agent id alone. */
function ruleOf(word: unknown): Rule | undefined {
  if (typeof word === 'object' && word !== null) return parseRule(word as Rule)
  if (typeof word !== 'string') throw invalid(word)
  return RULE.test(word) || domainOf(word) !== undefined ? parseRule(word) : undefined
}

function provenBy(channel: AgentChannel, asker: AgentId, rule: Rule): readonly AgentId[] {
  const agents = [...(channel.group?.members.keys() ?? [])].filter((agent) => {
    const verdict = channel.proving.of(agent)
    return agent !== asker && verdict?.state === 'checked' && satisfies(verdict, rule)
  })
  if (agents.length > 0) return agents
  throw StaticError.of(
    'not_found',
    `No other member of channel ${channel.name} has a checked proof that satisfies ${shownValue(rule)}.`,
  )
}

function memberNamed({ group, name }: AgentChannel, word: unknown): AgentId {
  if (typeof word !== 'string') throw invalid(word)
  const digits = word.replaceAll(/[\s:]/g, '').toLowerCase()
  // Whether it is a member is checked for all.
  if (ID.test(digits)) return digits
  const named = [...(group?.members ?? [])].filter(([, { identity }]) => utf8Text(identity) === word)
  const [first, second] = named
  if (first && !second) return first[0]
  if (second)
    throw StaticError.of(
      'invalid_request',
      `Channel ${name} has ${named.length} members named ${shownValue(word)}. Use an agent id.`,
    )
  throw StaticError.of('not_found', `Channel ${name} has no member named ${shownValue(word)}.`)
}

function invalid(word: unknown): StaticError {
  return StaticError.of('invalid_request', `\`from\` has ${shownValue(word)}. Name members by agent id, name or rule.`)
}
