/** The short form of `npm run proof -- chaos`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SEED } from '@static/testkit/random'
import { run } from '../../lab/chaos/machine.ts'
import { SHORT } from '../../lab/chaos/short.ts'

test(`agents and a relay are killed, stopped and cut off while members come and go, seed ${SEED}`, async (t) => {
  const { wrong, histories, ...figures } = await run({ ...SHORT, seed: SEED, say: () => {} })
  t.diagnostic(JSON.stringify(figures))
  assert.deepEqual(wrong, [])
  assert.ok(figures.acknowledged > 0 && histories.length > 0)
})
