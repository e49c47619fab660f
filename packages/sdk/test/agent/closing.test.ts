/** Closing an agent loses nothing that was done before it was closed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeMemoryStore } from '@static/testkit/store/agent-memory'
import { Agent } from '../../src/agent/agent.ts'
import { makeEngine } from '../../src/mls/index.ts'
import { newIdentity, someBytes } from '../support/agent-parts.ts'

test('messages settled while the session closes are written before the store is closed', async () => {
  const store = makeMemoryStore({ identity: Buffer.from('alice'), ...newIdentity() })
  const calls: string[] = []
  const { write, close } = { write: store.write.bind(store), close: store.close.bind(store) }
  store.write = (changes) => {
    calls.push(...changes.map(({ type }) => type))
    write(changes)
  }
  store.close = () => {
    calls.push('close')
    close()
  }
  const session = {
    request: () => {},
    ack: () => {},
    hold: () => {},
    release: () => {},
    close: () => {
      agent.context.journal.touchLater({
        drain: () => [{ type: 'dropKeyPackage', ref: 'settled' }],
        abandon: assert.fail,
        written: () => {},
      })
      return Promise.resolve()
    },
  }
  const agent: Agent = new Agent({
    store,
    engine: makeEngine(),
    hasTokens: false,
    now: Date.now,
    chance: () => 0.5,
    random: someBytes,
    connect: () => ({ session, ready: new Promise(() => {}) }),
  })
  await agent.close()
  assert.deepEqual(calls, ['dropKeyPackage', 'close'])
})
