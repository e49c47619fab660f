import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ed25519, signatureKeyPairOf } from '#platform/crypto'
import { fromHex, toHex } from '@static/protocol'
import { type Choice, decodeDecision, isDecisionOf, makeDecision } from '../../src/approvals/decision.ts'
import { approvalHash, decodeApproval, encodeApproval } from '../../src/approvals/request.ts'
import { readVectors } from './own.ts'

interface RequestVector {
  readonly about: string
  readonly channel_id: string
  readonly asker: string
  readonly request_id: string
  readonly deadline: number
  readonly need: number
  readonly from: readonly string[]
  readonly title: string
  readonly text: string
  readonly risk: string
  readonly action: string
  readonly bytes: string
  readonly hash: string
}

interface DecisionVector {
  readonly about: string
  readonly hash: string
  readonly choice: 1 | 2
  readonly time: number
  readonly attended: 0 | 1
  readonly public_key: string
  readonly seed: string
  readonly signature: string
  readonly decision: string
}

const { requests, decisions } = readVectors('approval.json') as {
  readonly requests: readonly RequestVector[]
  readonly decisions: readonly DecisionVector[]
}
const CHOICES: readonly Choice[] = ['approve', 'deny']

test('vectors: requests for an approval', () => {
  for (const { about, bytes, hash, ...vector } of requests) {
    const { asker, deadline, need, from, title, text, risk } = vector
    const request = {
      asker,
      deadline,
      need,
      from,
      title,
      text,
      risk,
      channelId: fromHex(vector.channel_id),
      requestId: fromHex(vector.request_id),
      action: fromHex(vector.action),
    }
    assert.equal(toHex(encodeApproval(request)), bytes, about)
    assert.deepEqual(decodeApproval(fromHex(bytes)), request, about)
    assert.equal(toHex(approvalHash(fromHex(bytes))), hash, about)
  }
})

test('vectors: decisions', () => {
  for (const { about, decision: bytes, ...vector } of decisions) {
    const key = signatureKeyPairOf(fromHex(vector.seed))
    const decider = toHex(fromHex(requests[0]?.from[0] ?? ''))
    const choice = CHOICES[vector.choice - 1] ?? assert.fail()
    const decision = { hash: fromHex(vector.hash), choice, time: vector.time, attended: vector.attended === 1 }
    assert.equal(toHex(makeDecision(decision, decider, ed25519.signer(key))), bytes, about)
    const decoded = decodeDecision(fromHex(bytes)) ?? assert.fail()
    assert.deepEqual(decoded, { ...decision, signature: fromHex(vector.signature) }, about)
    assert.ok(isDecisionOf(decoded, decider, fromHex(vector.public_key)), about)
  }
})
