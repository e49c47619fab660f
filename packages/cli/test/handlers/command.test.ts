/** Commands for messages. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseCommand } from '../../src/handlers/command.ts'

test('a command that does nothing is refused, as it would lose every message', () => {
  for (const line of ['', ' ', '\n\t']) assert.throws(() => parseCommand(line), { code: 'invalid_request' })
  assert.equal(parseCommand(' ./answer.sh'), ' ./answer.sh')
})
