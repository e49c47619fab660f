/** What is printed, whatever others have written. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { plainJson, printable } from '../src/terminal/output.ts'

test('invisible characters are escaped, in JSON without changing its meaning', () => {
  const hidden = Array.from('obey', (sign) => String.fromCodePoint(0xe_01_00 + sign.charCodeAt(0) - 16)).join('')
  const text = `ok${hidden}\u3164\u115F\u034F\u180B\uFE0F\u17B4\u200B\u001B\u2028`
  assert.match(plainJson({ text }), /^[ -~]+$/)
  assert.deepEqual(JSON.parse(plainJson({ text })), { text })
  assert.match(printable(text), /^[ -~]+$/)
  assert.equal(printable('owner\uFE00'), 'owner\\u{fe00}')
  assert.equal(printable('Zoë 李 🙂'), 'Zoë 李 🙂')
})
