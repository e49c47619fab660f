/** Names of files that their senders have chosen, and what becomes of them on this machine. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SEED } from '@static/testkit/random'
import { numberedName, safeName } from '../../src/files/safe-name.ts'

const NAMES: Readonly<Record<string, string>> = {
  'report.pdf': 'report.pdf',
  'Übersicht 2026.tar.gz': 'Übersicht 2026.tar.gz',
  'a b_c-d(1).txt': 'a b_c-d(1).txt',
  '../../etc/passwd': '_.._etc_passwd',
  '/etc/passwd': '_etc_passwd',
  'C:\\Windows\\system32': 'C__Windows_system32',
  '..': 'file',
  '.': 'file',
  '/': 'file',
  '': 'file',
  '   ': 'file',
  '.bashrc': 'bashrc',
  '.ssh/authorized_keys': 'ssh_authorized_keys',
  'invoice\u202Egpj.exe': 'invoice_gpj.exe',
  'a\u0000b\nc\u001B[31m': 'a_b_c_[31m',
  'zero\u200Bwidth\uFEFF': 'zero_width_',
  nul: '_nul',
  'CON.txt': '_CON.txt',
  'com1.tar.gz': '_com1.tar.gz',
  'aux .txt': '_aux .txt',
  'console.txt': 'console.txt',
  'ends with dots...': 'ends with dots',
  'what?*<>|"': 'what______',
  '\u{1F600}.png': '\u{1F600}.png',
  'a\uD800b': 'a_b',
}

test('names of files become safe, and stay as they are if they can', () => {
  for (const [name, safe] of Object.entries(NAMES)) assert.equal(safeName(name), safe, JSON.stringify(name))
  const long = safeName(`${'x'.repeat(300)}.tar.gz`)
  assert.equal(long, `${'x'.repeat(197)}.gz`)
  assert.equal(safeName(`${'x'.repeat(199)} y`), 'x'.repeat(199))
  assert.ok(Buffer.byteLength(safeName(`${'ü'.repeat(300)}.${'é'.repeat(300)}`)) <= 200)
  assert.equal(numberedName('report.pdf', 2), 'report-2.pdf')
  assert.equal(numberedName('Makefile', 3), 'Makefile-3')
})

test('no name leads anywhere, hides, or is too long for a file system', (t) => {
  t.diagnostic(`seed ${SEED}`)
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (name) => {
      const safe = safeName(name)
      assert.ok(safe !== '' && Buffer.byteLength(safe) <= 200)
      assert.doesNotMatch(safe, /[/\\\p{Cc}\p{Cf}]|^\.|[. ]$/u)
      assert.equal(safeName(safe), safe)
    }),
    { seed: SEED, numRuns: 500 },
  )
})
