/** Requests of commands, which are found again by their ids. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import type { StaticChannelManager } from '@static/sdk'
import { nextAnswer, startAsk } from '../src/agent/ask-actions.ts'

test('a request that fails before its first answer is fetched is an error, not an empty answer', async () => {
  const error = StaticError.of('fork_detected')
  const ask = { id: 'a1', deadline: new Date(Date.now() + 60_000), next: () => Promise.reject(error) }
  // Requests that have ended are not among `asked`.
  const channel = { ask: () => ask, asked: () => [] }
  const manager = { client: { channel: () => channel } } as unknown as StaticChannelManager
  const id = startAsk(manager, 'acme/x/y', { payload: Buffer.from('q'), member: '', timeout: 60 })
  await assert.rejects(nextAnswer(manager, 'acme/x/y', id), { code: 'fork_detected' })
  await assert.rejects(nextAnswer(manager, 'acme/x/y', id), { code: 'not_found' })
})
