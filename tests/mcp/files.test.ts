/** Files between models: by path, never through the model, and only from where the user allows it. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { entriesOf, newHost, ok, oldHost, Place, received, refusal } from './support.ts'

const place = await Place.open({ files: true })
after(() => place[Symbol.asyncDispose]())
const CHANNEL = 'acme/support/files'
{
  await using owner = await place.agent('owner')
  await place.channel(owner, CHANNEL, 'ann', 'bob')
}

test('a model sends a file by path, and another gets a path and a link to it', async () => {
  const out = join(place.workspace.path, 'out')
  mkdirSync(join(out, 'logs'), { recursive: true })
  const bytes = randomBytes(200_000)
  writeFileSync(join(out, 'logs/build.log'), bytes)
  writeFileSync(join(place.workspace.path, 'secret'), 'the key')
  symlinkSync('../secret', join(out, 'link'))
  const ann = await newHost(place.command('ann', 'mcp', '--send-from', out))
  const bob = await oldHost(place.command('bob', 'mcp'))

  const about = { channel: CHANNEL, path: 'logs/build.log', text: 'see line 7', type: 'text/plain' }
  const sent = await ok<{ done: boolean; index: number; id: string; file: string; size: number }>(
    ann,
    'send_file',
    about,
  )
  assert.deepEqual([sent.done, sent.size], [true, 200_000])
  const [entry] = entriesOf(await received(bob))
  assert.deepEqual([entry?.text, entry?.index], ['see line 7', sent.index])
  assert.deepEqual(entry?.attachment, { id: sent.file, name: 'build.log', type: 'text/plain', bytes: 200_000 })

  const result = await bob.call('save_file', { channel: CHANNEL, id: sent.file })
  const { path } = result.structuredContent as { path: string }
  assert.equal(path, join(place.directory('bob'), 'received-files/build.log'))
  assert.deepEqual(readFileSync(path), bytes)
  assert.equal(statSync(path).mode & 0o777, 0o600)
  const [, link] = result.content as unknown as readonly { type: string; uri: string; name: string; size: number }[]
  assert.deepEqual([link?.type, link?.name, link?.size], ['resource_link', 'build.log', 200_000])
  assert.equal(fileURLToPath(link?.uri ?? ''), path)
  assert.equal((await refusal(bob, 'save_file', { channel: CHANNEL, id: sent.file })).code, 'file_expired')

  for (const wrong of ['../secret', 'logs/../../secret', 'link', join(place.workspace.path, 'secret'), '/etc/passwd']) {
    assert.equal((await refusal(ann, 'send_file', { channel: CHANNEL, path: wrong })).code, 'not_allowed', wrong)
  }
  assert.equal((await refusal(ann, 'send_file', { channel: CHANNEL, path: 'logs' })).code, 'invalid_request')
  // Without the flag there is no such tool.
  await assert.rejects(bob.call('send_file', { channel: CHANNEL, path: 'x' }), /Unknown tool/)
  await Promise.all([ann.close(), bob.close()])
})
