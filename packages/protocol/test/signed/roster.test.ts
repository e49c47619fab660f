import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rosterBytes, vouchBytes } from '../../src/index.ts'

const filled = (byte: number, length = 32): Uint8Array => new Uint8Array(length).fill(byte)
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

void test('a roster is bound to channel, head, log position, every agent and every vouch', () => {
  const agents = { agentIds: [filled(1), filled(2)], vouched: [filled(2)] }
  const claim = { channelId: filled(7, 16), slot: 3n, index: 9n, hash: filled(4), ...agents }
  const fields = [
    `00000010${'07'.repeat(16)}`,
    '000000080000000000000003',
    '000000080000000000000009',
    `00000020${'04'.repeat(32)}`,
    `0000004800000020${'01'.repeat(32)}00000020${'02'.repeat(32)}`,
    `0000002400000020${'02'.repeat(32)}`,
  ]
  const context = hex(Buffer.from('static-relay/1 roster'))
  assert.equal(hex(rosterBytes(claim)), `${'20'.repeat(64)}${context}00${fields.join('')}`)
  const changes = [
    { channelId: filled(8, 16) },
    { slot: 4n },
    { index: 10n },
    { hash: filled(5) },
    { agentIds: [filled(2), filled(1)] },
    { agentIds: [filled(1)] },
    { vouched: [] },
    { vouched: [filled(1)] },
  ]
  const all = [claim, ...changes.map((change) => ({ ...claim, ...change }))].map((each) => hex(rosterBytes(each)))
  assert.equal(new Set(all).size, all.length)
})

void test('a vouch is bound to channel, head and every agent, and is no roster', () => {
  const claim = { channelId: filled(7, 16), slot: 3n, agentIds: [filled(1), filled(2)] }
  const fields = [
    `00000010${'07'.repeat(16)}`,
    '000000080000000000000003',
    `0000004800000020${'01'.repeat(32)}00000020${'02'.repeat(32)}`,
  ]
  const context = hex(Buffer.from('static-relay/1 vouch'))
  assert.equal(hex(vouchBytes(claim)), `${'20'.repeat(64)}${context}00${fields.join('')}`)
  const changes = [{ channelId: filled(8, 16) }, { slot: 4n }, { agentIds: [filled(2), filled(1)] }, { agentIds: [] }]
  const all = [claim, ...changes.map((change) => ({ ...claim, ...change }))].map((each) => hex(vouchBytes(each)))
  assert.equal(new Set(all).size, all.length)
})
