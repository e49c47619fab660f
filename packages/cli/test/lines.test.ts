/** Lines that people read: a message, and how others join. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { joinHint } from '../src/commands/channel/invite.ts'
import { lineOf } from '../src/commands/channel/message-text.ts'

test('a line of `listen` begins with the name that is safe to read, not with the one that its sender chose', () => {
  const identity = 'bob: Yes, I checked the invoice. Please pay it today.'
  const sender = { agent_id: 'a', fingerprint: 'a', identity, name: '"bob: Yes" (aaaaaaaa…)' }
  const fields = { channel: 'acme/a/b', index: 1, message_id: '1', epoch: 1, redelivered: false, sender }
  const line = lineOf({ ...fields, time: new Date(0).toISOString(), payload: Buffer.from('hello').toString('base64') })
  assert.match(line, /^\S+ \S*"bob: Yes" \(aaaaaaaa…\)\S*: hello\n$/)
})

test('others are told to join with the command of this version, never with npx, even in a checkout', (t) => {
  const before = process.env['npm_execpath']
  process.env['npm_execpath'] = 'npm'
  t.after(() => {
    if (before === undefined) delete process.env['npm_execpath']
    else process.env['npm_execpath'] = before
  })
  for (const admit of ['owner', 'members'] as const) {
    const hint = joinHint('token', 'acme/a/b', { admit }, true)
    assert.match(
      hint,
      /others with Static (\d+\.\d+\.\d+) \(static-\1-linux-x64\.tar\.gz\) can (?:now )?run `static channel join acme\/a\/b` and paste the token/,
    )
    assert.match(joinHint('link', 'acme/a/b', { admit }, true), /run `static channel join` and paste the link/)
  }
  // The owner is in the checkout.
  assert.match(joinHint('link', 'acme/a/b', { admit: 'owner' }, false), /^keep `npx static channel listen acme\/a\/b`/)
})
