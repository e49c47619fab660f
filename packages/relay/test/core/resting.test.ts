import assert from 'node:assert/strict'
import { test } from 'node:test'
import { quiet, startMemoryRelay } from '../support/memory-relay.ts'

test('a relay to which nobody is connected looks at its timers once a second, and wakes for whoever comes', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let time = Date.UTC(2027, 0, 15, 12)
  const world = await startMemoryRelay({ now: () => time })
  t.after(() => {
    t.mock.timers.reset()
    return world.close()
  })
  const ticks = t.mock.method(world.driver, 'tick').mock
  const healthy = t.mock.method(world.store, 'healthy')
  const sweeps = t.mock.method(world.store, 'run').mock
  /** Ticks and sweeps of so many seconds. */
  const pass = async (seconds: number): Promise<readonly [number, number]> => {
    ticks.resetCalls()
    sweeps.resetCalls()
    for (let passed = 0; passed < seconds * 1000; passed += 100) {
      time += 100
      t.mock.timers.tick(100)
      await quiet()
    }
    return [ticks.callCount(), sweeps.calls.filter(({ arguments: [name] }) => name === 'sweep').length]
  }
  // Ends with a tick, so that the next one is a whole second away.
  await pass(20.2)
  assert.deepEqual(await pass(20), [20, 2])
  const stream = await world.transport.wire('protobuf').open({ data: () => {}, closed: () => {} })
  assert.deepEqual(await pass(2), [10, 2])
  stream.end()
  await pass(20.2)
  assert.deepEqual(await pass(20), [20, 2])
  healthy.mock.mockImplementation(() => false)
  await pass(20)
  // A store that cannot write is tried as often as ever, so that it serves again soon.
  assert.deepEqual(await pass(2), [10, 2])
})
