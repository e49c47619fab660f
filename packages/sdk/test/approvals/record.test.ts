import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ed25519, signatureKeyPairOf, sha256 } from '#platform/crypto'
import { toHex } from '@static/protocol'
import { type Choice, makeDecision } from '../../src/approvals/decision.ts'
import { checkRecord, encodeRecord, type Expected, type KeyedDecision } from '../../src/approvals/record.ts'
import { approvalHash, encodeApproval } from '../../src/approvals/request.ts'

const keys = [1, 2, 3].map((number) => signatureKeyPairOf(new Uint8Array(32).fill(number)))
const [ada = '', ben = '', cy = ''] = keys.map(({ publicKey }) => toHex(sha256(publicKey)))
const ACTION = new TextEncoder().encode('{"deploy":"1.4.2"}')
const request = (need = 2): Uint8Array =>
  encodeApproval({
    channelId: new Uint8Array(16).fill(1),
    asker: 'f'.repeat(64),
    requestId: new Uint8Array(16).fill(2),
    deadline: 2000,
    need,
    from: [ada, ben, cy].toSorted(),
    title: 'Deploy',
    text: '',
    risk: '',
    action: ACTION,
  })
const REQUEST = request()

function decided(who: number, choice: Choice, { asked = REQUEST, time = 1000 } = {}): KeyedDecision {
  const key = keys[who] ?? assert.fail()
  const decision = { hash: approvalHash(asked), choice, time, attended: who === 0 }
  return {
    publicKey: key.publicKey,
    decision: makeDecision(decision, toHex(sha256(key.publicKey)), ed25519.signer(key)),
  }
}

const EXPECTED: Expected = { from: [ada, ben, cy], need: 2, action: ACTION }
const BOTH = [decided(0, 'approve'), decided(1, 'approve')]

test('a record permits its action to one who expects these agents', () => {
  const { request: found, approvals } = checkRecord(encodeRecord(REQUEST, [...BOTH, decided(2, 'deny')]), EXPECTED)
  assert.equal(found.title, 'Deploy')
  assert.deepEqual(approvals, [
    { agent: ada, time: 1000, attended: true },
    { agent: ben, time: 1000, attended: false },
  ])
})

test('a record permits nothing else: other bytes, other agents, fewer, other times, other requests', () => {
  const record = encodeRecord(REQUEST, BOTH)
  const refused = (text: string, change: Partial<Expected>, reason: RegExp): void => {
    assert.throws(() => checkRecord(text, { ...EXPECTED, ...change }), { code: 'not_allowed', message: reason })
  }
  refused(
    record,
    { action: new TextEncoder().encode('{"deploy":"1.4.3"}') },
    /another action: SHA-256 [0-9a-f]{64}, not/,
  )
  refused(record, { from: [ada, cy] }, /^The record .* 1 of the expected agents have approved; 2 are needed/)
  refused(record, { need: 3 }, /2 of the expected agents have approved; 3 are needed/)
  refused(encodeRecord(REQUEST, [decided(0, 'approve')]), { need: 1 }, /1 of .*; 2 are needed/)
  refused(encodeRecord(REQUEST, [decided(0, 'approve'), decided(0, 'approve')]), {}, /1 of /)
  refused(encodeRecord(REQUEST, [...BOTH, decided(0, 'deny')]), {}, /1 of /)
  refused(encodeRecord(REQUEST, [decided(0, 'approve'), decided(1, 'approve', { time: 2000 })]), {}, /not valid/)
  refused(encodeRecord(REQUEST, [decided(0, 'approve'), decided(1, 'approve', { asked: request(1) })]), {}, /not valid/)
  const [first, second] = BOTH as [KeyedDecision, KeyedDecision]
  refused(encodeRecord(REQUEST, [first, { ...first, publicKey: second.publicKey }]), {}, /not valid/)
  refused(encodeRecord(REQUEST, [first, { ...second, decision: second.decision.with(41, 1) }]), {}, /not valid/)
})

test('anything else is not a record', () => {
  const record = encodeRecord(REQUEST, BOTH)
  const wrong = [
    '',
    '[]',
    'null',
    record.replace('"static_approval":1', '"static_approval":2'),
    record.replace('"request":"', '"request":"AA'),
    record.replace(/"key":"[^"]*"/, '"key":"AA"'),
    record.replace(/"decision":"[^"]*"/, '"decision":7'),
    record.replace(/"decisions":.*/, '"decisions":{}}'),
    encodeRecord(
      REQUEST,
      Array.from({ length: 33 }, () => decided(0, 'approve')),
    ),
    `${record}${' '.repeat(131_072)}`,
  ]
  for (const text of wrong)
    assert.throws(() => checkRecord(text, EXPECTED), { code: 'invalid_request' }, text.slice(0, 99))
})
