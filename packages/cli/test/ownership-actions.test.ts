/** The commands about ownership, when another process holds the agent: their requests come over its socket, as JSON. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StaticChannelManager } from '@static/sdk'
import { runAction } from '../src/agent/actions.ts'
import { staticError } from './support.ts'

const BOB = 'b0'.repeat(32)

test('a standby is named, dropped and offered the channel while `listen` holds the agent', async () => {
  const asked: unknown[][] = []
  const channel = {
    owner: '',
    catchUp: () => Promise.resolve(),
    members: () => [{ agentId: BOB, fingerprint: BOB, identity: Buffer.from('bob') }],
    setStandby: (agent?: string) => Promise.resolve(void asked.push(['setStandby', agent])),
    transfer: (agent: string) => Promise.resolve(void asked.push(['transfer', agent])),
  }
  const manager = { client: { agentId: '', channel: () => channel } } as unknown as StaticChannelManager
  for (const [member, offered] of [
    ['bob', false],
    [null, false],
    ['bob', true],
  ]) {
    await runAction(manager, 'standby', JSON.parse(JSON.stringify(['acme/a/b', member, offered])))
  }
  assert.deepEqual(asked, [
    ['setStandby', BOB],
    ['setStandby', undefined],
    ['transfer', BOB],
  ])
  await assert.rejects(
    runAction(manager, 'standby', ['acme/a/b', { identity: 'bob' }, false]),
    staticError('invalid_request', /does not support this request/),
  )
})
