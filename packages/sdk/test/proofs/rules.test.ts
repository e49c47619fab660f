/** Rules and roots: which are read, which are refused, and what a rule covers. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { parseRoot } from '../../src/proofs/roots.ts'
import { parseRule, type Rule, ruleText, satisfies } from '../../src/proofs/rules.ts'
import type { CheckedProof, NameKind } from '../../src/proofs/verdict.ts'

function checked(kind: NameKind, name: string, subject: string, claims: Record<string, string> = {}): CheckedProof {
  return { state: 'checked', kind, name, subject, until: 1, facts: { root: name, key: 'k', issuedAt: 0, claims } }
}

const job = checked('github', 'acme/app', 'refs/heads/main environment:production', {
  ref: 'refs/heads/main',
  environment: 'production',
  workflow_ref: 'Acme/app/.github/workflows/deploy.yml@refs/heads/main',
})

function refusal(read: () => unknown): string {
  try {
    read()
  } catch (error) {
    assert.ok(error instanceof StaticError && error.code === 'invalid_request', String(error))
    return error.message
  }
  return 'read'
}

test('a rule is the same as a text and as an object', () => {
  const rules: readonly (readonly [string, Rule])[] = [
    ['acme.example', { domain: 'acme.example' }],
    ['github:acme/app@refs/heads/main', { github: 'acme/app', ref: 'refs/heads/main' }],
    ['github:acme/*@refs/tags/*', { github: 'acme/*', ref: 'refs/tags/*' }],
    ['github:acme/app@environment:production', { github: 'acme/app', environment: 'production' }],
    [
      'github:acme/app@.github/workflows/deploy.yml@refs/heads/main',
      { github: 'acme/app', workflow: '.github/workflows/deploy.yml@refs/heads/main' },
    ],
    [
      'oidc:https://idp.example#service:billing',
      { oidc: { issuer: 'https://idp.example', subject: 'service:billing' } },
    ],
    ['oidc:https://idp.example/a#team:*', { oidc: { issuer: 'https://idp.example/a', subject: 'team:*' } }],
    ['spiffe://acme.example/ns/prod/*', { spiffe: 'spiffe://acme.example/ns/prod/*' }],
  ]
  for (const [text, rule] of rules) {
    assert.deepEqual(parseRule(text), rule)
    assert.deepEqual(parseRule(rule), rule)
    assert.equal(ruleText(rule), text)
  }
  assert.deepEqual(parseRule(' Acme.Example '), { domain: 'acme.example' })
  assert.deepEqual(parseRule('müller.example'), { domain: 'xn--mller-kva.example' })
})

test('a rule that would match more than it says is refused', () => {
  const wrong: readonly unknown[] = [
    '',
    ' ',
    '*',
    '*.example',
    'localhost',
    '10.0.0.1',
    'acme.example/x',
    'https://acme.example',
    'github:acme/app',
    'github:acme/app@',
    'github:acme@refs/heads/main',
    'github:*@refs/heads/main',
    'github:acme/a*@refs/heads/main',
    'github:acme/..@refs/heads/main',
    'github:acme/a..b@refs/heads/main',
    'github:a.b/*@refs/heads/main',
    'github:acme/app@main',
    'github:acme/app@*',
    'github:acme/app@refs/heads/ma*',
    'github:acme/app@refs/*/main',
    'github:acme/app@refs//main',
    'github:acme/app@refs/../main',
    'github:acme/app@environment:',
    'github:acme/app@environment:*',
    'github:acme/app@.github/workflows/*',
    'github:acme/app@.github/workflows/deploy.yml',
    'github:acme/app@.github/workflows/deploy.yml@main',
    'oidc:https://idp.example',
    'oidc:https://idp.example#',
    'oidc:https://idp.example#*',
    'oidc:http://idp.example#x',
    'oidc:https://token.actions.githubusercontent.com#repo:acme/*',
    'spiffe://acme.example',
    'spiffe://acme.example/*x',
    'spiffe://*/ns/prod',
    'spiffe:acme.example',
    {},
    { domain: '' },
    { domain: 'github:acme/app@refs/heads/main' },
    { github: 'acme/app' },
    { github: 'acme/app', ref: 'refs/heads/main', environment: 'production' },
    { domain: 'acme.example', github: 'acme/app' },
    { oidc: { issuer: 'https://idp.example' } },
    { oidc: 'https://idp.example#x' },
    { spiffe: 'acme.example' },
    null,
    5,
    [],
  ]
  for (const rule of wrong)
    assert.match(
      refusal(() => parseRule(rule as Rule)),
      /^Invalid rule/,
      JSON.stringify(rule),
    )
  assert.match(
    refusal(() => parseRule('github:acme/app@main')),
    /A ref begins with refs\/, as in refs\/heads\/main\./,
  )
})

test('a rule covers its own issuer and subject, and no neighbour', () => {
  const billing = checked('oidc', 'https://idp.example', 'service:billing')
  const svid = checked('spiffe', 'acme.example', 'spiffe://acme.example/ns/prod/sa/billing')
  const covered: readonly (readonly [string, CheckedProof])[] = [
    ['acme.example', checked('domain', 'acme.example', 'deployer')],
    ['github:acme/app@refs/heads/main', job],
    ['github:acme/*@refs/heads/*', job],
    ['github:ACME/app@environment:production', job],
    ['github:acme/app@.github/workflows/deploy.yml@refs/heads/main', job],
    ['oidc:https://idp.example#service:billing', billing],
    ['oidc:https://idp.example#service:*', billing],
    ['spiffe://acme.example/ns/prod/*', svid],
  ]
  for (const [rule, proof] of covered) assert.ok(satisfies(proof, parseRule(rule)), rule)
  const not: readonly (readonly [string, CheckedProof])[] = [
    ['acme.example', checked('domain', 'evil.example', 'acme.example')],
    ['acme.example', checked('spiffe', 'acme.example', 'spiffe://acme.example/x')],
    ['acme.example', checked('oidc', 'acme.example', 'acme.example')],
    ['github:acme/ap@refs/heads/main', job],
    ['github:acm/*@refs/heads/main', job],
    ['github:acme/app@refs/heads/mai', job],
    ['github:acme/app@refs/heads/main', { ...job, facts: { ...job.facts, claims: {} } }],
    ['github:acme/app@environment:prod', job],
    ['github:acme/app@.github/workflows/other.yml@refs/heads/main', job],
    ['oidc:https://idp.example#service:bill', billing],
    ['oidc:https://idp.example/a#service:billing', billing],
    ['oidc:https://idp.example#billing', billing],
    ['spiffe://acme.example/ns/pro/*', svid],
    ['spiffe://acme.example/ns/prod/*', { ...svid, subject: 'spiffe://acme.example/ns/prod/../test/x' }],
    ['spiffe://acme.example/ns/prod/*', { ...svid, subject: 'spiffe://acme.example/ns/prod/' }],
  ]
  for (const [rule, proof] of not) assert.ok(!satisfies(proof, parseRule(rule)), rule)
})

test('a root names one issuer', () => {
  const roots = [
    'acme.example',
    'github:acme/app',
    'github:acme/*',
    'oidc:https://idp.example',
    'oidc:https://gitlab.com/x',
  ]
  for (const text of roots) assert.equal(parseRoot(text).text, text)
  assert.equal(parseRoot('spiffe:acme.example', { keys: '/b.json' }).text, 'spiffe:acme.example')
  const wrong = [
    '',
    '*',
    '127.0.0.1',
    '[::1]',
    '0x7f000001',
    'localhost',
    'acme.example:443',
    'github:*',
    'github:acme',
    'github:acme/app@refs/heads/main',
    'oidc:http://idp.example',
    'oidc:https://idp.example?x',
    'oidc:https://idp.example#x',
    'oidc:https://user@idp.example',
    'oidc:https://token.actions.githubusercontent.com',
    'spiffe:acme.example',
    'spiffe:Acme.example',
  ]
  for (const text of wrong)
    assert.match(
      refusal(() => parseRoot(text)),
      /^Invalid root/,
      text,
    )
})
