import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeyPackageSupply } from '../../src/agent/key-package-supply.ts'
import { POOLED } from '../../src/agent/key-packages.ts'
import type { RelaySession } from '../../src/ports/index.ts'
import { answering } from '../support/lying-relay.ts'

const AT_ONCE = 8

test('a relay that keeps reporting that all KeyPackages are taken gets a few lots at once, then one per 10 s on average', async () => {
  let made = 0
  const uploaded: number[] = []
  const timers: { readonly at: number; readonly action: () => void }[] = []
  const session: Pick<RelaySession, 'request'> = {
    request: ({ case: name, value }, done) => {
      assert.ok(name === 'uploadKeyPackage')
      uploaded.push(value.keyPackages.length)
      done({ type: 'answered', body: answering({ case: name, value: { held: POOLED } }) })
    },
  }
  const supply = new KeyPackageSupply({
    keyPackages: { make: () => Promise.resolve({ keyPackage: Uint8Array.of(++made) }) },
    context: { session },
    timers: { later: (at: number, action: () => void) => timers.push({ at, action }) },
    hasAccountSession: true,
    fail: assert.fail,
  } as never)
  /** What the relay says, with time for all that could follow from it. */
  const report = async (held: number): Promise<void> => {
    supply.topUp(held)
    for (let turns = 0; turns < 3 * POOLED; turns++) await Promise.resolve()
  }
  for (let times = 0; times < 100; times++) await report(3)
  assert.deepEqual(uploaded, Array(AT_ONCE).fill(POOLED - 3))
  assert.deepEqual(
    timers.map(({ at }) => at),
    Array(AT_ONCE).fill(AT_ONCE * 10_000),
  )
  // Later: what the relay said last is remembered, and one that holds enough gets none.
  await report(5)
  timers[0]!.action()
  await report(POOLED)
  assert.deepEqual(uploaded.slice(AT_ONCE), [POOLED - 5])
  for (const { action } of timers.slice(1)) action()
  await report(POOLED)
  assert.equal(uploaded.length, AT_ONCE + 1)
  await report(0)
  assert.deepEqual(uploaded.slice(AT_ONCE), [POOLED - 5, POOLED])
})
