/** Creating a channel without a session. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseChannelName, type StaticError } from '@static/protocol'
import { makeMemoryStore } from '@static/testkit/store/agent-memory'
import { Agent } from '../../src/agent/agent.ts'
import { foundChannel } from '../../src/agent/founding.ts'
import { makeEngine } from '../../src/mls/index.ts'
import { newIdentity, someBytes } from '../support/agent-parts.ts'

/** The code of the error with which the creation ends, at the latest when the agent is closed. */
async function fateOffline(hasTokens: boolean): Promise<string> {
  const session = {
    request: () => {},
    ack: () => {},
    hold: () => {},
    release: () => {},
    close: () => Promise.resolve(),
  }
  const agent = new Agent({
    store: makeMemoryStore({ identity: Buffer.from('alice'), ...newIdentity() }),
    engine: makeEngine(),
    hasTokens,
    now: Date.now,
    chance: () => 0.5,
    random: someBytes,
    connect: () => ({ session, ready: new Promise(() => {}) }),
  })
  const fate = foundChannel(agent, parseChannelName('acme/x/y')).then(
    () => 'ok',
    ({ code }: StaticError) => code,
  )
  await agent.close()
  return fate
}

test('without a session, an agent with an API key waits to create a channel, and a guest is told that it needs a key', async () => {
  assert.deepEqual([await fateOffline(true), await fateOffline(false)], ['closed', 'api_key_required'])
})
