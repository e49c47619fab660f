/** The size and shape of what a model gets, whatever members write. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import fc from 'fast-check'
import type { Message } from '../../src/agent/actions.ts'
import { Answer } from '../../src/mcp/answer.ts'
import type { Item } from '../../src/mcp/lane.ts'
import { MANAGE_TOOLS } from '../../src/mcp/manage-tools.ts'
import { pageOf } from '../../src/mcp/page.ts'
import { saveReceived } from '../../src/mcp/received-files.ts'
import { TOOLS } from '../../src/mcp/tools.ts'
import { plainJson } from '../../src/terminal/output.ts'

const directory = mkdtempSync(join(tmpdir(), 'static-answer-'))
after(() => rmSync(directory, { recursive: true }))
const MOST_BYTES = 24 * 1024

function message(text: string | Uint8Array, { index = 1, identity = 'ann', id = 'a'.repeat(64) } = {}): Item {
  const payload = Buffer.from(text as string).toString('base64')
  const sender = { agent_id: id, fingerprint: id, identity }
  const time = new Date(0).toISOString()
  const fields = { message_id: 'f'.repeat(32), epoch: 1, time, redelivered: false, sender, payload }
  const follower = { next: () => Promise.reject(new Error()), given: () => {}, settle: () => {}, abandon: () => {} }
  return { channel: 'acme/support/routing', message: { channel: 'acme/support/routing', index, ...fields }, follower }
}

test('no text or identity makes an answer larger than 24 KiB, or changes anything but its own field', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 500 }),
    fc.string({ unit: fc.constantFrom('\u0000', '"', '\\', '\u2028', '}', '<'), maxLength: 5000 }),
  )
  const sent = fc.record({ text, identity: fc.string({ unit: 'binary', minLength: 1, maxLength: 63 }), id: fc.nat(5) })
  fc.assert(
    fc.property(fc.array(sent, { minLength: 1, maxLength: 30 }), (messages) => {
      const answer = new Answer(() => '/file')
      const items = messages.map(({ text: words, identity, id }, index) =>
        message(words, { index, identity, id: String(id).repeat(64) }),
      )
      const fitting = items.findIndex((item) => !answer.add(item))
      const count = fitting < 0 ? items.length : fitting
      assert.ok(count > 0)
      const { senders, channels, more } = answer.result
      const shown = plainJson(answer.result)
      assert.ok(Buffer.byteLength(shown) <= MOST_BYTES, `${Buffer.byteLength(shown)} bytes`)
      assert.doesNotMatch(shown, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
      assert.equal(more, fitting >= 0)
      const entries = channels.flatMap((channel) => channel.entries)
      assert.equal(entries.length, count)
      for (const [at, entry] of entries.entries()) {
        const given = messages[at]
        assert.ok('index' in entry && given)
        assert.equal(entry.index, at)
        assert.doesNotMatch(senders[entry.sender - 1]?.identity ?? '', /[\p{Cc}\p{Cf}]/u)
        assert.equal(senders[entry.sender - 1]?.agent_id, String(given.id).repeat(64))
        if (entry.file === undefined) assert.equal(entry.text, Buffer.from(given.text).toString())
      }
    }),
    { seed: 20, numRuns: 20 },
  )
})

test('what does not fit is left for the next answer', () => {
  for (const [text, most] of [
    ['\u0000'.repeat(3000), 1],
    ['ü'.repeat(1000), 11],
    ['x', 200],
  ] as const) {
    const answer = new Answer(() => '')
    let count = 0
    while (answer.add(message(text, { index: count, identity: '\u001B'.repeat(255) }))) count++
    assert.ok(count > 0 && count <= most, `${count} messages`)
    assert.equal(answer.result.more, true)
    const bytes = Buffer.byteLength(plainJson(answer.result))
    assert.ok(bytes <= MOST_BYTES && bytes > MOST_BYTES / 2, `${bytes} bytes`)
  }
})

test('a hundred short messages take at most 16 KiB', () => {
  const answer = new Answer(() => '')
  for (let index = 1000; index < 1100; index++) assert.ok(answer.add(message('Review of #7 is done.', { index })))
  const bytes = Buffer.byteLength(plainJson(answer.result))
  assert.ok(bytes <= 16 * 1024, `${bytes} bytes`)
})

test('the descriptions of all tools take at most 6 KiB', () => {
  const bytes = Buffer.byteLength(JSON.stringify([...TOOLS, ...MANAGE_TOOLS]))
  assert.ok(bytes <= 6 * 1024, `${bytes} bytes`)
})

test('the largest channel is listed in pages that fit, without losing a member', () => {
  const members = Array.from({ length: 250 }, (_, at) => ({
    identity: '\\u{202e}'.repeat(85),
    agent_id: String(at).padStart(64, '0'),
  }))
  const seen: string[] = []
  for (let more = true; more;) {
    const page = pageOf(members, ({ agent_id: id }) => id, seen.at(-1))
    assert.ok(Buffer.byteLength(plainJson({ members: page.rows, more: page.more })) <= MOST_BYTES)
    assert.ok(page.rows.length > 0)
    seen.push(...page.rows.map(({ agent_id: id }) => id))
    more = page.more
  }
  assert.deepEqual(
    seen,
    members.map(({ agent_id: id }) => id),
  )
})

test('files are private and few: the oldest make room', () => {
  const saved = (index: number, words: string): string => {
    const item = message(words, { index })
    assert.ok('message' in item)
    const { message: kept }: { readonly message: Message } = item
    return saveReceived(directory, kept, Buffer.from(words), true)
  }
  const first = saved(0, 'first')
  assert.equal(statSync(first).mode & 0o777, 0o600)
  assert.equal(statSync(join(directory, 'received')).mode & 0o777, 0o700)
  // Delivered again, it has the same name.
  assert.equal(saved(0, 'first'), first)
  const old = new Date(0)
  for (let index = 1; index < 256; index++) {
    const path = join(directory, 'received', String(index))
    writeFileSync(path, '')
    utimesSync(path, old, index + 1)
  }
  utimesSync(first, old, old)
  saved(256, 'last')
  assert.equal(readdirSync(join(directory, 'received')).length, 256)
  assert.equal(statSync(first, { throwIfNoEntry: false }), undefined)
})
