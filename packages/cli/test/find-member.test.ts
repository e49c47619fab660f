/** Members as people name them on the command line. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findMember, memberOrAgent, type MemberSummary } from '../src/agent/members.ts'
import { staticError } from './support.ts'

const BEGINNING = '5f0c8e2a'
const member = (agentId: string, identity: string): MemberSummary => {
  return { agent_id: agentId, fingerprint: '', identity, owner: false, standby: false, self: false }
}
const bob = member(BEGINNING.padEnd(64, '0'), 'bob')
const trap = member('9'.repeat(64), BEGINNING)

void test('the beginning of a fingerprint never names a member that only calls itself so', () => {
  // The agent with that fingerprint has left.
  for (const find of [findMember, memberOrAgent]) {
    assert.throws(() => find([trap], 'c', BEGINNING), staticError('not_found', /Use a fingerprint/))
    assert.throws(() => find([bob, trap], 'c', BEGINNING), staticError('invalid_request', /2 members that match/))
    assert.equal(find([bob], 'c', BEGINNING).agent_id, bob.agent_id)
    assert.equal(find([trap], 'c', trap.agent_id).agent_id, trap.agent_id)
  }
  assert.equal(findMember([bob, trap], 'c', 'bob'), bob)
})
