/** What is kept of the proofs of members. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemberProofs } from '../../src/channel/proving/member-proofs.ts'
import type { MemberProofRecord } from '../../src/ports/index.ts'
import type { Verdict } from '../../src/proofs/verdict.ts'

const CHANNEL = '0'.repeat(32)
const AGENT = 'a'.repeat(64)
const OWNER = 'b'.repeat(64)

const unknown: Verdict = { state: 'unchecked', reason: 'its key is not among those of its issuer', unknownSince: 5 }

/** As after a restart. */
function reopened(proofs: MemberProofs): MemberProofs {
  const records = proofs.drain().flatMap((change): readonly MemberProofRecord[] => {
    return change.type === 'putMemberProof' ? [change.record] : []
  })
  return new MemberProofs(CHANNEL, undefined, records)
}

test('a member that shows one made-up key after the other gains no time', () => {
  let proofs = new MemberProofs(CHANNEL, undefined, [])
  const shows = (count: number, verdict: Verdict): number | undefined => {
    proofs.shown(AGENT, OWNER, 1, Buffer.from(`proof ${count}`))
    proofs.judged(AGENT, verdict, 100)
    proofs = reopened(proofs)
    return proofs.unknownSince(AGENT)
  }
  assert.equal(shows(1, unknown), 5)
  assert.equal(shows(2, { state: 'unchecked', reason: 'no root', claimed: 'evil.example' }), 5)
  assert.equal(shows(3, { state: 'invalid', reason: 'its issuer did not sign it' }), 5)
  assert.equal(shows(4, { ...unknown, state: 'invalid' }), 5)
  assert.equal(shows(5, { state: 'lapsed', reason: 'it has expired' }), 5, 'nor with a token that has ended in between')
  const facts = { root: 'acme.example', key: 'k', issuedAt: 1 }
  const name = { kind: 'domain', name: 'acme.example', subject: 'deployer' } as const
  assert.equal(shows(6, { state: 'checked', ...name, until: 99, facts }), undefined)
  assert.equal(shows(7, { ...unknown, unknownSince: 7 }), 7)
})

test('a made-up key does not undo a verdict that holds, nor begin a time while it does', () => {
  const proofs = new MemberProofs(CHANNEL, undefined, [])
  const facts = { root: 'acme.example', key: 'k', issuedAt: 1 }
  const name = { kind: 'domain', name: 'acme.example', subject: 'deployer' } as const
  proofs.judged(AGENT, { state: 'checked', ...name, until: 200, facts }, 100)
  proofs.shown(AGENT, OWNER, 1, Buffer.from('another'))
  proofs.judged(AGENT, unknown, 101)
  assert.equal(proofs.of(AGENT, 102)?.state, 'checked')
  assert.equal(proofs.unknownSince(AGENT), undefined)
})
