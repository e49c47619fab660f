/** What is printed, whatever others have written. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
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

test('notes that nobody reads do not fill the memory', async () => {
  const output = JSON.stringify(new URL('../src/terminal/output.ts', import.meta.url).href)
  const program = `import { note } from ${output}
for (let count = 0; count < 10_000; count++) note('x'.repeat(100))
process.stdout.write(String(process.stderr.writableLength), () => process.exit())`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['ignore', 'pipe', 'pipe'] })
  child.stderr.pause()
  const unread = Number(await text(child.stdout))
  assert.ok(unread > 0 && unread < 66 * 1024, `${unread} bytes`)
  child.stderr.destroy()
})
