/** What the commands that go on after a lie do with the agent, in this process or in the one that holds it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StaticChannelManager } from '@static/sdk'
import { runAction } from '../src/agent/actions.ts'
import { staticError } from './support.ts'

const BOB = 'b0'.repeat(32)

/** An agent that only writes down what is asked of its channel. */
function recorder(): { readonly manager: StaticChannelManager; readonly asked: unknown[][] } {
  const asked: unknown[][] = []
  const channel = {
    owner: BOB,
    catchUp: () => Promise.resolve(),
    members: () => [{ agentId: BOB, fingerprint: BOB, identity: Buffer.from('bob') }],
    acceptFork: () => void asked.push(['acceptFork']),
    liftBar: (agent: string) => Promise.resolve(void asked.push(['liftBar', agent])),
    rejectCommit: (slot: number) => Promise.resolve(void asked.push(['rejectCommit', slot])),
  }
  const manager = { client: { agentId: '', channel: () => channel } } as unknown as StaticChannelManager
  return { manager, asked }
}

test('a fork is accepted, a change rejected, and a bar lifted, even of an agent that has left', async () => {
  const { manager, asked } = recorder()
  const gone = '9e'.repeat(32)
  await runAction(manager, 'acceptFork', ['acme/a/b'])
  await runAction(manager, 'rejectCommit', ['acme/a/b', 3])
  const lifted = await runAction(manager, 'liftBar', ['acme/a/b', 'bob'])
  await runAction(manager, 'liftBar', ['acme/a/b', gone.toUpperCase()])
  assert.deepEqual(asked, [['acceptFork'], ['rejectCommit', 3], ['liftBar', BOB], ['liftBar', gone]])
  assert.deepEqual(lifted, { agent_id: BOB, name: 'bob (b0b0b0b0…)' })
  await assert.rejects(
    runAction(manager, 'liftBar', ['acme/a/b', gone.slice(0, 8)]),
    staticError('not_found', /no member/),
  )
})
