/** Two agents talk in every traffic profile, and nobody but the network can tell which. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IS_WHOLE } from '@static/testkit/whole'
import { take, WAYS, TestSystem } from '../support/test-system.ts'

const PROFILES = ['off', 'standard', 'private', 'strict'] as const

for (const way of WAYS) {
  for (const traffic of IS_WHOLE || way === 'quic' ? PROFILES : (['strict'] as const)) {
    void test(`two agents talk by ${way} in the profile ${traffic}`, async (t) => {
      const world = await TestSystem.start(t, way)
      // Quick enough for a test; what is slow about the default is tested on the scheduler.
      const options = { traffic, ...(traffic === 'strict' ? { cellsPerSecond: 64 } : {}) }
      const alice = await world.agent('alice', options)
      const bob = await world.agent('bob', { ...options, traffic: traffic === 'private' ? 'off' : traffic })
      const [hers, his] = await world.channel(alice, [bob])
      assert.ok(hers && his)
      await hers.send(Buffer.from('hello'))
      assert.deepEqual(await take(his, 1), ['hello'])
      await his.send(Buffer.from('hi'))
      assert.deepEqual(await take(hers, 1), ['hi'])
    })
  }
}
