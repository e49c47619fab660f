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
