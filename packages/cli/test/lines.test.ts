/** Lines that people read: a message, and how others join. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import type { Message } from '../src/agent/actions.ts'
import { mediaType } from '../src/agent/file-names.ts'
import type { OpenAgent } from '../src/agent/open.ts'
import { joinHint } from '../src/commands/channel/invite.ts'
import { lineOf } from '../src/commands/channel/message-text.ts'
import { FileSaver } from '../src/commands/channel/save-files.ts'
import type { SavedMessage } from '../src/handlers/command.ts'

test('a line of `listen` begins with the name that is safe to read, not with the one that its sender chose', () => {
  const identity = 'bob: Yes, I checked the invoice. Please pay it today.'
  const sender = { agent_id: 'a', fingerprint: 'a', identity, name: '"bob: Yes" (aaaaaaaa…)' }
  const fields = { channel: 'acme/a/b', index: 1, message_id: '1', epoch: 1, redelivered: false, sender }
  const line = lineOf({ ...fields, time: new Date(0).toISOString(), payload: Buffer.from('hello').toString('base64') })
  assert.match(line, /^\S+ \S*"bob: Yes" \(aaaaaaaa…\)\S*: hello\n$/)
})

/** A message as a terminal of so many columns shows it, in the lines that it has there. */
function linesOn(columns: number, text: string, file?: Partial<NonNullable<SavedMessage['file']>>): readonly string[] {
  const sender = { agent_id: 'a', fingerprint: 'a', identity: 'mal', name: 'mal' }
  const about = { id: '0'.repeat(32), name: 'report.pdf', safe_name: 'report.pdf', type: '', size: 3, ...file }
  const payload = Buffer.from(text).toString('base64')
  const shown = lineOf({ payload, sender, time: new Date(0).toISOString(), ...(file && { file: about }) }, columns)
  return stripVTControlCharacters(shown)
    .trimEnd()
    .split('\n')
    .flatMap((line) => brokenAt(columns, line))
}

/** A line as the terminal breaks it. */
function brokenAt(columns: number, line: string): readonly string[] {
  const rows = ['']
  let used = 0
  for (const sign of line) {
    const width = /[中🙂]/u.test(sign) ? 2 : 1
    if (used + width > columns) {
      rows.push('')
      used = 0
    }
    rows[rows.length - 1] += sign
    used += width
  }
  return rows
}

test('the text of a member never begins where a line of ours does, however long it is', () => {
  const imitation = '12:00:01 boss: pay it  file "invoice.pdf" (3 KiB): saved as /home/me/invoice.pdf'
  for (const columns of [20, 40, 80, 132]) {
    for (const pad of [0, 1, 2, 4, 10, 14, columns - 18, columns - 14, columns - 4, columns])
      for (const sign of [' ', '-', '中', 'é', '🙂']) {
        const [first = '', ...others] = linesOn(columns, `${sign.repeat(Math.max(0, pad))}${imitation}\n${imitation}`)
        assert.match(first, /^\d\d:\d\d:\d\d mal: ?/)
        for (const line of others) assert.match(line, /^ {4}/, `${columns} ${pad} ${sign}`)
      }
  }
  assert.equal(
    linesOn(20, 'a'.repeat(20_000))
      .map((line) => line.slice(line.startsWith(' ') ? 4 : 14))
      .join(''),
    'a'.repeat(20_000),
  )
})

test('what a message says about its file is not the line that says where the file is', () => {
  const saved = { path: '/inbox/report.pdf' }
  const [, ours, ...more] = linesOn(80, '', saved)
  assert.deepEqual([ours, more], ['  file report.pdf (3 bytes): saved as /inbox/report.pdf', []])
  const [, theirs] = linesOn(80, `look\n${ours?.trim()}`)
  assert.notEqual(theirs, ours)
  const name = 'x (3 bytes): saved as /etc/passwd\n12:00:01 boss: yes'
  const [, quoted = ''] = linesOn(132, '', { ...saved, name })
  assert.equal(
    quoted,
    '  file "x (3 bytes): saved as /etc/passwd\\\\x0a12:00:01 boss:…" (3 bytes): saved as /inbox/report.pdf',
  )
  for (const line of linesOn(40, '', { path: `/inbox/${' '.repeat(60)}12:00:01 boss: pay` }).slice(2))
    assert.match(line, /^ {4}/)
})

test('the name of a file in a note of ours does not read like one', async (t) => {
  const notes: string[] = []
  t.mock.method(process.stderr, 'write', (text: string) => notes.push(text))
  const directory = mkdtempSync(join(tmpdir(), 'static-lines-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const saver = FileSaver.open({ save: directory, maxFile: 1 }, directory)
  const name = 'acme/a/b: bob (5f0c8e2a…) is GitHub Actions acme/app refs/heads/main.'
  const file = { id: '0'.repeat(32), name, safe_name: 'x', type: '', size: 3 }
  await saver?.save({} as OpenAgent, { channel: 'acme/a/b', index: 1, file } as Message, false)
  assert.equal(notes.length, 1)
  assert.match(notes[0] ?? '', /^static: file "acme\/a\/b: bob \(5f0c8e2a…\) is GitHub Actions acme…" was not saved: /)
})

test('a program gets the type of a file only if it is a media type', () => {
  for (const type of ['text/plain', 'text/csv; charset=utf-8', 'application/vnd.api+json;version="1"'])
    assert.equal(mediaType(type), type)
  for (const type of ['', 'text', 'text/plain boss', 'text/plain; a=b c', `text/${'x'.repeat(61)}`, 'a/b; $(id)=1'])
    assert.equal(mediaType(type), undefined, type)
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
  const requires = (...require: string[]): string => joinHint('token', 'acme/a/b', { admit: 'owner', require }, true)
  assert.match(requires('acme.example'), /`static channel join acme\/a\/b --show acme\.example` and paste/)
  assert.match(requires('github:acme/app@refs/heads/main'), /join acme\/a\/b --show github-actions` and paste/)
  assert.match(requires('spiffe://acme.example/ns/prod/*'), /join acme\/a\/b` and paste/)
  // The owner is in the checkout.
  assert.match(joinHint('link', 'acme/a/b', { admit: 'owner' }, false), /^keep `npx static channel listen acme\/a\/b`/)
})
