/** Floods of every kind at once: the servers live, and a probe is answered. `npm run proof -- dos` measures how fast. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { ATTACKS } from '../../lab/dos/attacks.ts'
import { Scene } from '../../lab/dos/scene.ts'

const SIZE = 4
const PROBES = 5
const scene = await Scene.start()
after(() => scene[Symbol.asyncDispose]())

test('under floods of every kind, calls to the API and messages are answered', async (t) => {
  const attacks = Object.keys(ATTACKS)
  const { result, counts } = await scene.under(attacks, SIZE, () => scene.probe(0, PROBES))
  assert.deepEqual([result.api.length, result.message.length], [PROBES, PROBES])
  t.diagnostic([...counts].map(([attack, { hits }]) => `${attack}: ${hits}`).join(', '))
})
