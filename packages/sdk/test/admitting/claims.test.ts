/** How long claims of other members hold this agent back from a joiner. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Claims, encodeClaims } from '../../src/admitting/claims.ts'

const INVITE = '00'.repeat(16)
const idOf = (number: number): string => number.toString(16).padStart(64, '0')

/** Claims at a time that the test sets, all by one invite. */
function scene() {
  const clock = { now: 1_000_000 }
  const context = { agentId: idOf(9_999_999), now: () => clock.now, random: () => new Uint8Array() }
  const claims = new Claims(context, { listedInvites: { record: () => {} } } as never, [])
  const claim = (by: string, ...agents: string[]): void =>
    claims.receive(by, encodeClaims(agents.map((agent) => ({ invite: INVITE, agent }))))
  return { clock, claims, claim }
}

test('members that claim a joiner one after another hold it back for a minute in all', () => {
  const { clock, claims, claim } = scene()
  const joiner = idOf(1)
  for (let second = 0; second < 600; second += 10) {
    claim(idOf(1000 + second), joiner)
    assert.equal(claims.isHeldBack(joiner), second < 60, `after ${second} s`)
    clock.now += 10_000
  }
  // Another epoch, perhaps without the members that claimed it.
  claims.clear([])
  claim(idOf(2000), joiner)
  assert.equal(claims.isHeldBack(joiner), false)
  // It was added, and asks again later.
  claims.clear([joiner])
  claim(idOf(2001), joiner)
  assert.equal(claims.isHeldBack(joiner), true)
})

test('claims of joiners that no one has heard of hold back a bounded number', () => {
  const { claims, claim } = scene()
  const isHeld = (joiner: number): boolean => claims.isHeldBack(idOf(joiner))
  for (let joiner = 0; joiner < 48; joiner++) claim(idOf(5000), idOf(joiner))
  assert.deepEqual([31, 32, 47].map(isHeld), [true, false, false])
  for (let joiner = 100; joiner < 4100; joiner++) claim(idOf(10_000 + joiner), idOf(joiner))
  assert.equal(Array.from({ length: 4100 }, (_, joiner) => joiner).filter(isHeld).length, 1024)
})
