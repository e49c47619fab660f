/** Whom an owner removes that demands proofs of members. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { type Candidate, TRANSIENT } from '../../src/admitting/adding.ts'
import type { Invite } from '../../src/admitting/issued.ts'
import { checkJoiner, replacedBy, Requiring, stillProven } from '../../src/admitting/requiring.ts'
import type { AgentContext } from '../../src/agent/context.ts'
import type { AgentChannel } from '../../src/channel/channel.ts'
import type { ProofDesk } from '../../src/proofs/desk.ts'
import { shownClaim } from '../../src/proofs/names.ts'
import type { CheckedProof, OtherProof, Verdict } from '../../src/proofs/verdict.ts'

/** Whether a member with an unchecked proof of an issuer has to go, an hour after it was added, or is asked for another. */
async function goes(rules: string, issuer: string, more: Partial<OtherProof> = {}): Promise<boolean | 'asked'> {
  let unproven = 0
  let asked = 0
  const context = { agentId: 'owner', now: () => 3_600_000, emit: () => unproven++ }
  const channel = {
    owner: 'owner',
    state: 'joined',
    intake: { isOnline: true, catchUp: () => Promise.resolve() },
    proving: {
      demands: [{ agent: 'member', rules, since: 0 }],
      of: () => ({ state: 'unchecked', reason: 'its keys are out of reach', claimed: shownClaim(issuer), ...more }),
      ask: () => asked++,
    },
  }
  const enforced = new Requiring(context as unknown as AgentContext).enforce(channel as unknown as AgentChannel)
  // This channel cannot remove anyone.
  await enforced.catch(() => {})
  return unproven === 0 && asked > 0 ? 'asked' : unproven > 0
}

test('a member whose issuer is out of reach stays, however long the name of the issuer is', async () => {
  const far = `${'out-of-reach.'.repeat(8)}example`
  const repository = `acme/${'a'.repeat(90)}`
  for (const [rule, issuer] of [
    ['acme.example', 'acme.example'],
    [far, far],
    [`oidc:https://${far}/tenant#job:*`, `https://${far}/tenant`],
    [`spiffe://${far}/ns/*`, far],
    [`github:${repository}@refs/heads/main`, repository],
    ['github:acme/*@refs/heads/main', repository],
  ] as const) {
    assert.equal(await goes(rule, issuer), false, rule)
    assert.equal(await goes(rule, 'other.example'), true, rule)
  }
})

test('a member whose key its issuer does not have is asked for another, and goes once that is certain', async () => {
  const reason = 'its key is not among those of its issuer'
  const unknown = { reason, unknownSince: 1 }
  assert.equal(await goes('acme.example', 'acme.example', unknown), 'asked')
  assert.equal(await goes('acme.example', 'acme.example', { ...unknown, state: 'invalid' }), true)
  assert.equal(await goes('acme.example', 'other.example', unknown), true)
})

test('a member whose proof has ended is asked for another, and goes if the issuer named somebody else', async () => {
  const signed = {
    kind: 'oidc',
    name: 'https://ci.example',
    subject: 'job:acme',
    facts: { root: 'oidc:https://ci.example', key: 'k', issuedAt: 1 },
  } as const
  const lapsed = { state: 'lapsed', reason: 'it has expired', signed } as const
  const rule = 'oidc:https://ci.example#job:acme'
  assert.equal(await goes(rule, 'https://ci.example', lapsed), 'asked')
  assert.equal(await goes(rule, 'https://ci.example', { ...lapsed, state: 'unchecked' }), false)
  for (const state of ['lapsed', 'unchecked'] as const)
    assert.equal(await goes('oidc:https://ci.example#job:other', 'https://ci.example', { ...lapsed, state }), true)
})

test('a member has ten minutes to show its proof, and is asked for it three times', async () => {
  const minutes: number[] = []
  const told: number[] = []
  let now = 3_600_000
  const since = now
  const context = { agentId: 'owner', now: () => now, emit: () => told.push((now - since) / 60_000) }
  const channel = {
    id: 'channel',
    owner: 'owner',
    state: 'joined',
    intake: {
      isOnline: true,
      catchUp: () => Promise.resolve(),
      receiveForRemoval: () => Promise.reject(StaticError.of('rate_limited')),
    },
    proving: {
      demands: [{ agent: 'member', rules: 'acme.example', since }],
      of: () => undefined,
      ask: () => minutes.push((now - since) / 60_000),
    },
  }
  const requiring = new Requiring(context as unknown as AgentContext)
  for (; now < since + 11 * 60_000; now += 5000) await requiring.enforce(channel as unknown as AgentChannel)
  assert.deepEqual(minutes, [0, 4, 8])
  assert.deepEqual(told, [10])
})

test('that a member has to go is said once while its removal is refused, and again if it shows something else', async () => {
  const told: string[] = []
  let proof: Verdict | undefined
  let demands = [{ agent: 'member', rules: 'acme.example', since: 0 }]
  const context = {
    agentId: 'owner',
    now: () => 3_600_000,
    emit: ({ member, proof: shown }: { member: string; proof?: OtherProof }) =>
      told.push(`${member} ${shown?.reason ?? ''}`),
  }
  const channel = {
    id: 'channel',
    owner: 'owner',
    state: 'joined',
    intake: {
      isOnline: true,
      catchUp: () => Promise.resolve(),
      receiveForRemoval: () => Promise.reject(StaticError.of('rate_limited')),
    },
    proving: {
      get demands() {
        return demands
      },
      of: () => proof,
    },
  }
  const requiring = new Requiring(context as unknown as AgentContext)
  const enforce = async (): Promise<void> => {
    for (let ticks = 0; ticks < 3; ticks++) await requiring.enforce(channel as unknown as AgentChannel)
  }
  await enforce()
  assert.deepEqual(told, ['member '])
  proof = { state: 'invalid', reason: 'it is not a proof' }
  await enforce()
  assert.deepEqual(told, ['member ', 'member it is not a proof'])
  // It was removed, and another member has added it again.
  demands = []
  await enforce()
  demands = [{ agent: 'member', rules: 'acme.example', since: 0 }]
  await enforce()
  assert.equal(told.length, 3)
})

test('a job takes the place only of those that its invite would admit', () => {
  const job = (workflow: string, more: Partial<CheckedProof> = {}): CheckedProof => ({
    state: 'checked',
    kind: 'github',
    name: 'acme/app',
    subject: 'refs/heads/main',
    until: 9,
    facts: {
      root: 'github:acme/app',
      key: 'k',
      issuedAt: 1,
      claims: { ref: 'refs/heads/main', workflow_ref: `acme/app/.github/workflows/${workflow}.yml@refs/heads/main` },
    },
    ...more,
  })
  const members = new Map<string, CheckedProof | undefined>([
    ['owner', job('deploy')],
    ['standby', job('deploy')],
    ['last', job('deploy')],
    ['monitor', job('monitor')],
    ['fork', job('deploy', { name: 'mallory/app' })],
    ['branch', job('deploy', { subject: 'refs/heads/x' })],
    ['person', undefined],
  ])
  const channel = {
    group: { members },
    owner: 'owner',
    standby: { agent: 'standby' },
    proving: { lastChecked: (agent: string) => members.get(agent) },
  } as unknown as AgentChannel
  const replaced = (require: string, replaces = true): readonly string[] =>
    replacedBy(channel, { record: { require, replaces } } as Invite, { agent: 'new' } as Candidate, job('deploy'))
  const deploy = 'github:acme/app@.github/workflows/deploy.yml@refs/heads/main'
  assert.deepEqual(replaced(deploy), ['last'])
  assert.deepEqual(replaced('github:acme/app@refs/heads/main'), ['last', 'monitor'])
  assert.deepEqual(replaced(deploy, false), [])
})

test('a joiner whose proof cannot be checked now waits, and is not refused', async () => {
  const failing = { check: () => Promise.reject(new Error('too many open files')) } as unknown as ProofDesk
  const bytes = new Uint8Array(32)
  const joiner = { signatureKey: bytes, keyPackage: bytes, proof: bytes }
  const checking = checkJoiner({ proofs: failing }, {} as AgentChannel, 'acme.example', joiner, bytes)
  await assert.rejects(checking, (error) => TRANSIENT.has(StaticError.from(error).code))
})

test('a use that was taken before a stop admits nobody whose proof was revoked meanwhile', () => {
  const facts = { root: 'acme.example', key: 'k', issuedAt: 1 }
  const checked: CheckedProof = {
    state: 'checked',
    kind: 'domain',
    name: 'acme.example',
    subject: 'deployer',
    until: 9,
    facts,
  }
  const stored = JSON.stringify(checked)
  const deskThatSays = (verdict: Verdict): { proofs: ProofDesk } => ({
    proofs: { standing: () => verdict } as unknown as ProofDesk,
  })
  assert.deepEqual(stillProven(deskThatSays(checked), stored), checked)
  assert.equal(stillProven(deskThatSays({ state: 'lapsed', reason: 'its issuer has revoked it' }), stored), undefined)
  assert.equal(stillProven({ proofs: undefined }, stored), undefined)
})
