/** A fork that is found while an agent joins: it says hello and does nothing else, and its application is told later. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newChannel } from '../../src/core/agent/founding.ts'
import { Forks } from '../../src/core/channel/log/forks.ts'
import { Standing } from '../../src/core/channel/standing.ts'

const MEMBER = 'ab'.repeat(32)

test('a fork stops an agent that joins once it has joined, and only then is its application told', () => {
  const nowhere = { index: 0, hash: new Uint8Array(), slot: 0 }
  const standing = new Standing(newChannel('01', 'acme/fork/one', MEMBER, 'joining', nowhere).record, () => {})
  const events: string[] = []
  let refused = 0
  const forks = new Forks(
    { emit: ({ type }) => void events.push(type) },
    { name: 'acme/fork/one' } as never,
    standing,
    { refuse: () => void refused++ },
    () => {},
  )
  forks.found(MEMBER, 'seen')
  // It may send, which is for its hello: nothing else, and no commit.
  assert.equal(standing.isTalking, true)
  assert.equal(standing.refusal()?.code, 'fork_detected')
  assert.equal(refused, 1)
  assert.deepEqual(events, [])
  standing.set({ state: 'joined' })
  forks.joined()
  assert.equal(standing.isTalking, false)
  assert.equal(refused, 2)
  assert.deepEqual(events, ['fork_detected'])
})
