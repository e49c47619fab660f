/** Who is meant by `from`: ids, names that only one member has, and rules that checked proofs satisfy now. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AgentChannel } from '../../src/channel/channel.ts'
import type { Verdict } from '../../src/proofs/verdict.ts'
import { decidersOf } from '../../src/public/approvals/deciders.ts'

const id = (digit: string): string => digit.repeat(64)
const CHECKED: Verdict = {
  state: 'checked',
  kind: 'domain',
  name: 'acme.example',
  subject: 'x',
  until: 1,
  facts: { root: 'acme.example', key: 'k', issuedAt: 1 },
}
const names: Readonly<Record<string, string>> = {
  [id('a')]: 'bot',
  [id('b')]: 'ada',
  [id('c')]: 'ben',
  [id('d')]: 'ben',
  // A name that looks like a proven one.
  [id('e')]: 'acme.example',
}
const verdicts: Readonly<Record<string, Verdict>> = {
  [id('a')]: CHECKED,
  [id('b')]: CHECKED,
  [id('c')]: { ...CHECKED, name: 'evil.example' },
  [id('d')]: { state: 'unchecked', reason: 'no root', claimed: 'acme.example' },
}
const members = new Map(Object.entries(names).map(([agent, name]) => [agent, { identity: Buffer.from(name) }]))
const channel = {
  name: 'acme/ops/deploys',
  group: { members },
  proving: { of: (agent: string) => verdicts[agent] },
} as unknown as AgentChannel
const meant = (...from: readonly unknown[]): readonly string[] => decidersOf(channel, id('a'), from)

test('members are named by id, fingerprint, or a name that no other member has', () => {
  const fingerprint = id('c').replaceAll(/(.{4})(?=.)/g, '$1 ')
  assert.deepEqual(meant('ada', fingerprint, id('b')), [id('b'), id('c')])
  assert.throws(() => meant('ben'), { code: 'invalid_request', message: /2 members named 'ben'/ })
  assert.throws(() => meant('cy'), { code: 'not_found' })
  for (const word of [7, undefined, {}]) assert.throws(() => meant(word), { code: 'invalid_request' })
})

test('a rule stands for the members that have proven it, never for the asker or for a name', () => {
  assert.deepEqual(meant('acme.example'), [id('b')])
  assert.deepEqual(meant({ domain: 'acme.example' }), [id('b')])
  assert.throws(() => meant('other.example'), { code: 'not_found', message: /checked proof/ })
  assert.throws(() => meant('github:acme/app'), { code: 'invalid_request', message: /Any branch/ })
})
