import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ALPN, joinProofBytes, type SessionClaim, sessionBytes } from '../../src/index.ts'

const filled = (byte: number, length = 32): Uint8Array => new Uint8Array(length).fill(byte)

const claim: SessionClaim = {
  purpose: 'session',
  revision: 1,
  relayName: 'relay.example',
  relayId: filled(1),
  relayNonce: filled(2),
  agentNonce: filled(3),
  jwtHash: filled(4),
  traffic: 'standard',
  cellsPerSecond: 0,
}

void test('the bytes signed to open a session are specified byte for byte', () => {
  const field = (hex: string): string => `${(hex.length / 2).toString(16).padStart(8, '0')}${hex}`
  const text = (value: string): string => Buffer.from(value).toString('hex')
  const expected = [
    '20'.repeat(64),
    text('static-relay/1 session'),
    '00',
    field(text('session')),
    field('0000000000000001'),
    field(text('relay.example')),
    field('01'.repeat(32)),
    field('02'.repeat(32)),
    field('03'.repeat(32)),
    field('04'.repeat(32)),
    field(text('standard')),
  ]
  assert.equal(ALPN, 'static-relay/1')
  assert.equal(Buffer.from(sessionBytes(claim)).toString('hex'), expected.join(''))
})

void test('each part of a claim changes the signed bytes', () => {
  const others: SessionClaim[] = [
    { ...claim, purpose: 'unary' },
    { ...claim, purpose: 'refresh' },
    { ...claim, revision: 2 },
    { ...claim, relayName: 'relay.example2' },
    { ...claim, relayId: filled(9) },
    { ...claim, relayNonce: filled(9) },
    { ...claim, agentNonce: filled(9) },
    { ...claim, relayNonce: claim.agentNonce, agentNonce: claim.relayNonce },
    { ...claim, jwtHash: filled(9) },
    { ...claim, jwtHash: undefined },
    { ...claim, traffic: 'strict' },
    { ...claim, traffic: 'strict', cellsPerSecond: 16 },
  ]
  const all = [claim, ...others].map((each) => Buffer.from(sessionBytes(each)).toString('hex'))
  assert.equal(new Set(all).size, all.length)
})

void test('a guest signs zeros in place of the hash of its JWT', () => {
  assert.deepEqual(sessionBytes({ ...claim, jwtHash: undefined }), sessionBytes({ ...claim, jwtHash: filled(0) }))
})

void test('a proof of joining is bound to session, invite, agent and box', () => {
  const join = { sessionNonce: filled(1), inviteId: filled(2, 16), agentId: filled(3), boxHash: filled(4) }
  const all = [
    join,
    { ...join, sessionNonce: filled(9) },
    { ...join, inviteId: filled(9, 16) },
    { ...join, agentId: filled(9) },
    { ...join, boxHash: filled(9) },
    { ...join, inviteId: filled(2, 17) },
  ]
  assert.equal(new Set(all.map((each) => String(joinProofBytes(each)))).size, all.length)
})
