import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Pins } from '../../src/agent/pins.ts'
import type { Change } from '../../src/ports/index.ts'

const [OWNER, OTHER] = ['00'.repeat(32), '11'.repeat(32)]
const [ANN, EVE] = ['aa'.repeat(32), 'ee'.repeat(32)]
const name = Buffer.from('ann')

test('an identity has one key per owner until the application accepts another', () => {
  const written: Change[] = []
  const pins = new Pins([], { add: (...changes) => void written.push(...changes) })
  assert.equal(pins.conflict(OWNER, name, ANN), undefined)
  pins.set(OWNER, name, ANN)
  assert.equal(pins.conflict(OWNER, name, ANN), undefined)
  assert.equal(pins.conflict(OWNER, name, EVE), ANN)
  assert.equal(pins.conflict(OTHER, name, EVE), undefined)
  assert.equal(pins.conflict(OWNER, Buffer.from('ann2'), EVE), undefined)
  pins.set(OWNER, name, ANN)
  pins.set(OWNER, name, EVE)
  assert.equal(pins.conflict(OWNER, name, ANN), EVE)
  // Each once.
  assert.deepEqual(
    written,
    [ANN, EVE].map((agent) => ({ type: 'putPin', owner: OWNER, identity: name, agent })),
  )
})

test('pins survive a restart', () => {
  const pins = new Pins([{ owner: OWNER, identity: name, agent: ANN }], { add: () => assert.fail('nothing is new') })
  assert.equal(pins.conflict(OWNER, name, EVE), ANN)
  pins.set(OWNER, name, ANN)
})

test('an owner that adds ever more identities fills no memory, and displaces no pin', () => {
  let written = 0
  const pins = new Pins([{ owner: OTHER, identity: name, agent: ANN }], { add: () => void written++ })
  pins.set(OWNER, name, ANN)
  for (let count = 0; count < 20_000; count++) pins.set(OWNER, Buffer.from(`made up ${count}`), EVE)
  assert.equal(written, 10_000)
  assert.equal(pins.conflict(OWNER, name, EVE), ANN)
  // Other owners are not affected, and what is pinned can still be accepted under another key.
  pins.set(OTHER, Buffer.from('bob'), EVE)
  pins.set(OWNER, name, EVE)
  assert.equal(pins.conflict(OWNER, name, ANN), EVE)
  assert.equal(written, 10_002)
})

test('a take-over copies the pins of current members, displaces none, and takes no more room than is left', () => {
  const stored = Array.from({ length: 9_999 }, (_, n) => ({ owner: OTHER, identity: Buffer.from(`${n}`), agent: EVE }))
  const [bob, gone] = [Buffer.from('bob'), Buffer.from('gone')]
  const written: Change[] = []
  const former = [name, bob, gone].map((identity) => ({ owner: OWNER, identity, agent: ANN }))
  const pins = new Pins([...stored, ...former], { add: (...changes) => void written.push(...changes) })
  const member = (agent: string, identity: Uint8Array) => ({ agentId: Buffer.from(agent, 'hex'), identity })
  // Another key has bob's name in this channel; the new owner's pin of 0 is of another key as well.
  pins.copy(OWNER, OTHER, [member(EVE, bob), member(ANN, Buffer.from('0')), member(ANN, name)])
  assert.deepEqual(written, [{ type: 'putPin', owner: OTHER, identity: name, agent: ANN }])
  assert.equal(pins.conflict(OTHER, gone, EVE), undefined)
  assert.equal(pins.conflict(OTHER, Buffer.from('0'), ANN), EVE)
  // The former owner's own pins stay, and nothing more fits.
  pins.set(OWNER, gone, ANN)
  pins.copy(OWNER, OTHER, [member(ANN, gone)])
  assert.equal(written.length, 1)
})
