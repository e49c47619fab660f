import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ed25519, generateSignatureKeyPair, sha256 } from '#platform/crypto'
import { toHex } from '@static/protocol'
import { decodeDecision, type Decision, isDecisionOf, makeDecision } from '../../src/approvals/decision.ts'
import {
  type ApprovalRequest,
  decodeApproval,
  encodeApproval,
  MOST_ACTION_BYTES,
  MOST_DECIDERS,
  MOST_RISK_BYTES,
  MOST_TEXT_BYTES,
  MOST_TITLE_BYTES,
} from '../../src/approvals/request.ts'

const agent = (digit: string): string => digit.repeat(64)
const REQUEST: ApprovalRequest = {
  channelId: new Uint8Array(16).fill(1),
  asker: agent('a'),
  requestId: new Uint8Array(16).fill(2),
  deadline: 1_800_000_000_000,
  need: 2,
  from: [agent('b'), agent('c'), agent('d')],
  title: 'Deploy',
  text: 'Now',
  risk: 'high',
  action: Uint8Array.of(0, 255),
}

test('a request has one form, and every field a limit', () => {
  const bytes = encodeApproval(REQUEST)
  assert.deepEqual(decodeApproval(bytes), REQUEST)
  for (let length = 0; length < bytes.length; length++)
    assert.equal(decodeApproval(bytes.subarray(0, length)), undefined)
  assert.equal(decodeApproval(Uint8Array.of(...bytes, 0, 0, 0, 0)), undefined)
  const many = Array.from({ length: MOST_DECIDERS + 1 }, (_, at) => at.toString(16).padStart(64, '0'))
  const wrong: Readonly<Record<string, Partial<ApprovalRequest>>> = {
    'the asker among the deciders': { from: [agent('a'), agent('b')] },
    'a decider twice': { from: [agent('b'), agent('b')] },
    'deciders out of order': { from: [agent('c'), agent('b')] },
    'no decider': { from: [], need: 0 },
    'too many deciders': { from: many },
    'more needed than asked': { need: 4 },
    'none needed': { need: 0 },
    'no title': { title: '' },
    'a long title': { title: 'x'.repeat(MOST_TITLE_BYTES + 1) },
    'a long text': { text: 'x'.repeat(MOST_TEXT_BYTES + 1) },
    'a long risk': { risk: 'x'.repeat(MOST_RISK_BYTES + 1) },
    'no action': { action: new Uint8Array() },
    'a long action': { action: new Uint8Array(MOST_ACTION_BYTES + 1) },
    'a deadline beyond all dates': { deadline: 2 ** 53 - 1 },
    'a short channel id': { channelId: new Uint8Array(15) },
    'a short id': { requestId: new Uint8Array(15) },
  }
  for (const [about, change] of Object.entries(wrong))
    assert.equal(decodeApproval(encodeApproval({ ...REQUEST, ...change })), undefined, about)
  const longest = {
    ...REQUEST,
    from: many.slice(0, MOST_DECIDERS),
    title: 'x'.repeat(MOST_TITLE_BYTES),
    text: 'x'.repeat(MOST_TEXT_BYTES),
    risk: 'x'.repeat(MOST_RISK_BYTES),
    action: new Uint8Array(MOST_ACTION_BYTES),
  }
  const encoded = encodeApproval(longest)
  assert.deepEqual(decodeApproval(encoded), longest)
  // With the rest of the frame, in the fourth size of messages (SPEC.md, 4.2).
  assert.ok(encoded.length < 65_536)
})

test('a decision holds for its signer, its request and its words alone', () => {
  const key = generateSignatureKeyPair()
  const decider = toHex(sha256(key.publicKey))
  const decision: Decision = { hash: new Uint8Array(32).fill(7), choice: 'deny', time: 1000, attended: false }
  const bytes = makeDecision(decision, decider, ed25519.signer(key))
  const decoded = decodeDecision(bytes) ?? assert.fail()
  assert.ok(isDecisionOf(decoded, decider, key.publicKey))
  const changes: readonly Partial<Decision>[] = [
    { hash: new Uint8Array(32).fill(8) },
    { choice: 'approve' },
    { time: 1001 },
    { attended: true },
  ]
  for (const change of changes)
    assert.ok(!isDecisionOf({ ...decoded, ...change }, decider, key.publicKey), JSON.stringify(change))
  assert.ok(!isDecisionOf(decoded, agent('b'), key.publicKey))
  assert.ok(!isDecisionOf(decoded, decider, generateSignatureKeyPair().publicKey))
  for (const [at, byte] of [
    [32, 0],
    [32, 3],
    [33, 255],
    [41, 2],
  ] as const)
    assert.equal(decodeDecision(bytes.with(at, byte)), undefined, `byte ${at}`)
  assert.equal(decodeDecision(bytes.subarray(1)), undefined)
})
