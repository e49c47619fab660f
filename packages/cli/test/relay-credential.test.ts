import assert from 'node:assert/strict'
import { test } from 'node:test'
import { credentialsIn } from '../src/server/relay-credential.ts'

const [one, two, three] = ['a'.repeat(32), 'b'.repeat(32), 'c'.repeat(32)]

test('a credential file has one line, or two while the credential is rotated', () => {
  assert.deepEqual(credentialsIn(`${one}\n`, 'f'), [one])
  assert.deepEqual(credentialsIn(`\n ${two}\r\n${one}\n\n`, 'f'), [two, one])
  assert.throws(() => credentialsIn('\n', 'f'), /^StaticError: f has 0 lines: it must contain one credential/)
  assert.throws(() => credentialsIn(`${one}\n${two}\n${three}\n`, 'f'), /f has 3 lines/)
  assert.throws(() => credentialsIn(`${one}\nshort\n`, 'f'), /f is too short: a credential must have at least 32 char/)
  for (const wrong of [`${one} ${two}`, `${one}é`]) {
    assert.throws(() => credentialsIn(wrong, 'f'), /f contains a credential with a space or a character outside ASCII/)
  }
})
