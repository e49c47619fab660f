/** The order in which agents of one process follow commits. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FollowTurns } from '../../src/channel/log/follow-turns.ts'
import { TestSystem } from '../support/test-system.ts'

test('agents take turns, one per turn of the event loop, and those whose application waits come first', async () => {
  const rounds: (() => void)[] = []
  const turns = new FollowTurns((action) => void rounds.push(action))
  const done: string[] = []
  const urgent = new Set(['d'])
  for (const name of ['a', 'b', 'c', 'd', 'e']) {
    void turns.wait(() => urgent.has(name)).then(() => done.push(name))
  }
  const order: string[] = []
  const round = async (): Promise<void> => {
    assert.equal(rounds.length, 1)
    rounds.shift()?.()
    await new Promise(setImmediate)
    order.push(done.splice(0).join())
  }
  await round()
  await round()
  // Its application asks meanwhile.
  urgent.add('e')
  await round()
  await round()
  await round()
  assert.deepEqual(order, ['d', 'a', 'e', 'b', 'c'])
  assert.equal(rounds.length, 0)
})

test('an agent that waits for its turn follows when its application wants to commit', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  let taken = 0
  // Many others are before bob: it is never its turn, unless it is urgent.
  const [alice, bob] = [
    await world.agent('alice'),
    await world.agent('bob', {
      turns: {
        wait: async (isUrgent) => {
          taken++
          while (!isUrgent()) await new Promise(setImmediate)
        },
      },
    }),
  ]
  const [a, b] = await world.channel(alice, [bob])
  await a!.rotate()
  await b!.rotate()
  await a!.catchUp()
  assert.equal(a!.verify(), b!.verify())
  assert.ok(taken > 0)
})
