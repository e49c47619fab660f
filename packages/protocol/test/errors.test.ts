import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  AuthError,
  ChannelError,
  ERROR_MEANINGS,
  ERRORS,
  type ErrorCode,
  MlsError,
  QuotaExceededError,
  StaticError,
  TransportError,
} from '../src/index.ts'

const FAMILIES = { AuthError, TransportError, ChannelError, QuotaExceededError, MlsError, StaticError }

for (const [code, row] of Object.entries(ERRORS)) {
  test(`${code} has a class, a status and a message that says what is wrong and what to do`, () => {
    const error = StaticError.of(code as ErrorCode)
    assert.ok(error instanceof FAMILIES[row.family])
    assert.equal(error.constructor, FAMILIES[row.family])
    assert.deepEqual([error.name, error.code, error.httpStatus], [row.family, code, row.status])
    assert.ok(row.status >= 400 && row.status < 600)
    assert.ok(row.grpc >= 1 && row.grpc <= 16)
    assert.match(row.help, /^[A-Z].*\. [A-Z].*\.$/s)
    assert.ok(row.help.endsWith(` ${row.remedy}`))
    assert.equal(error.message, row.help)
    assert.match(ERROR_MEANINGS[code as ErrorCode], /^[A-Z].*\.$/s)
  })
}

test('the prefixes of the Python client follow the families', () => {
  const expected = { AuthError: 'auth error:', TransportError: 'transport error:', MlsError: 'MLS engine error:' }
  for (const [code, { family, prefix }] of Object.entries(ERRORS)) {
    const rest = code === 'channel_error' ? 'invalid channel name:' : 'runtime error:'
    assert.equal(prefix, (expected as Record<string, string>)[family] ?? rest, code)
  }
})

test('an unknown error becomes internal_error and keeps its cause', () => {
  const cause = new TypeError('boom')
  const error = StaticError.from(cause)
  assert.deepEqual([error.code, error.cause], ['internal_error', cause])
  assert.ok(!error.message.includes('boom'))
  assert.equal(StaticError.from(error), error)
})

test('an error keeps its code and message in JSON, with its cause and without its stack', () => {
  const cause = new Error('No route to host.')
  const error = StaticError.of('rate_limited', 'Too many messages.', { cause, retryAfter: 3 })
  error.explainAt('https://api.example')
  assert.deepEqual(JSON.parse(JSON.stringify({ error })), {
    error: {
      name: 'TransportError',
      code: 'rate_limited',
      message: 'Too many messages.',
      retryable: true,
      docUrl: 'https://api.example/docs/errors#rate_limited',
      retryAfter: 3,
      cause: { message: 'No route to host.' },
    },
  })
  const plain = StaticError.of('removed')
  assert.deepEqual(JSON.parse(JSON.stringify(plain)).message, plain.message)
})
