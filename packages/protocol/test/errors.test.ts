import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { runInNewContext } from 'node:vm'
import {
  AuthError,
  ChannelError,
  ERROR_MEANINGS,
  ERRORS,
  type ErrorCode,
  MlsError,
  QuotaExceededError,
  redactSecrets,
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

const BODY = 'Q7r2Xw9LQ7r2Xw9L_Q7r2Xw9L-Q7r2Xw9LQ7r2Xw9L'

test('an error shows no secret: neither its message, nor its cause, nor what they are as JSON', () => {
  const secrets = ['sk_live_', 'sk_test_', 'st_inv_', 'static://', 'pw_', 'su_'].map((prefix) => `${prefix}${BODY}`)
  for (const secret of secrets) {
    const url = new TypeError('Invalid URL', { cause: new Error(`no ${secret}`) })
    const cause = Object.assign(url, { input: secret })
    const error = StaticError.of('channel_error', `Channel name ${secret} is invalid.`, { cause })
    const shown = [error.message, error.stack, JSON.stringify(error), inspect(error, { depth: 8 })]
    for (const text of shown) assert.doesNotMatch(text ?? '', /Q7r2Xw9L/, secret)
    assert.match(error.message, /^Channel name [a-z_:/]+… is invalid\.$/)
    assert.equal(error.cause, cause)
  }
})

test('an error shows no secret of the errors that its cause gathers, nor of a cause that is a text', () => {
  const secret = `sk_live_${BODY}`
  const inner = new AggregateError([new Error(secret), secret], secret, { cause: secret })
  const gathered = new AggregateError([inner, 7], 'All failed.')
  gathered.errors.push(gathered)
  for (const cause of [gathered, secret, new Error('no', { cause: gathered })]) {
    const error = StaticError.of('unavailable', undefined, { cause })
    for (const text of [JSON.stringify(error), inspect(error, { depth: 8 }), inspect(error.details, { depth: 8 })]) {
      assert.doesNotMatch(text, /Q7r2Xw9L/)
    }
  }
})

test('an error shows no secret of a cause that is an object, of its fields, or of one that cannot be changed', () => {
  const secret = `sk_live_${BODY}`
  const shared = { token: secret, list: [secret] }
  const circular: Record<string, unknown> = { [secret]: 1 }
  circular['self'] = circular
  class Quoting extends Error {
    override get message(): string {
      return secret
    }
  }
  const causes = {
    object: shared,
    array: [{ deep: [shared] }],
    circular,
    'a field': Object.assign(new Error('no'), { request: shared, [Symbol('key')]: secret }),
    frozen: Object.freeze(new TypeError(secret, { cause: new Error(secret) })),
    'another realm': runInNewContext(`new Error('${secret}')`) as unknown,
    'a getter': new Quoting(),
    'a DOMException': new DOMException(secret, 'AbortError'),
  }
  for (const [kind, cause] of Object.entries(causes)) {
    const error = StaticError.of('unavailable', undefined, { cause })
    const shown = [JSON.stringify(error), inspect(error, { depth: 8, showHidden: true }), inspect(error.details)]
    for (const text of shown) assert.doesNotMatch(text, /Q7r2Xw9L/, kind)
  }
  assert.deepEqual(shared, { token: secret, list: [secret] }, 'an object that may be in use is not changed')
  assert.ok(StaticError.of('unavailable', undefined, { cause: causes.frozen }).cause instanceof TypeError)
})

test('an error shows no secret in its details, and keeps ids as they are', () => {
  const secret = `st_inv_${BODY}`
  const lagging = [{ agent: `pw_${BODY}`, waiting: 3 }]
  const errors = [{ field: secret, message: `not ${secret}` }]
  const error = StaticError.of('queue_full', undefined, { errors, answer: { code: 'x', message: secret }, lagging })
  assert.deepEqual(error.details, {
    errors: [{ field: 'st_inv_…', message: 'not st_inv_…' }],
    answer: { code: 'x', message: 'st_inv_…' },
    lagging,
  })
  const many = Array.from({ length: 100 }, (_, at) => ({ field: `field ${at}`, message: secret }))
  const long = StaticError.of('invalid_request', undefined, { errors: many, cause: new Error(secret) })
  assert.doesNotMatch(inspect(long, { depth: 8, maxArrayLength: 1000 }), /Q7r2Xw9L/)
  const wide = Object.fromEntries(Array.from({ length: 1100 }, (_, at) => [`field ${at}`, at > 1050 ? secret : 'x']))
  assert.doesNotMatch(inspect(StaticError.of('internal_error', undefined, { cause: wide }), { depth: 8 }), /Q7r2Xw9L/)
  const clean = { errors: [{ field: 'name', message: 'is required' }], retryAfter: 3 }
  assert.equal(StaticError.of('invalid_request', undefined, clean).details, clean)
})

test('an error can be made of a cause that cannot be read', () => {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  const fails = {
    get(): never {
      throw new Error('no')
    },
  }
  const causes = [
    Object.defineProperty(new Error('x'), 'field', fails),
    Object.defineProperty({}, 'field', { ...fails, enumerable: true }),
    Object.create(null),
    proxy,
    new Proxy(new Error('x'), { ownKeys: () => fails.get(), getPrototypeOf: () => fails.get() }),
  ]
  for (const cause of causes) JSON.stringify(StaticError.of('unavailable', undefined, { cause }))
  const [first] = causes
  assert.equal(StaticError.of('unavailable', undefined, { cause: first }).cause, first)
})

test('a cause with any number of errors in it takes bounded time', () => {
  let cause = new AggregateError([new Error('last')])
  for (let depth = 0; depth < 30; depth++) {
    cause = new AggregateError([cause, ...Array.from({ length: 30 }, () => new AggregateError([cause]))])
  }
  const looks = Array.from({ length: 10_000 }, () => new Error('x'))
  let seen = 0
  for (const error of looks) Object.defineProperty(error, 'name', { get: () => `${seen++}` })
  StaticError.of('unavailable', undefined, { cause: new AggregateError([...looks, cause]) })
  assert.ok(seen > 0 && seen < 200, `${seen} errors`)
})

test('a secret is recognised wherever it stands, and what only looks like one stays', () => {
  const redacted = {
    [`'static://${BODY}'`]: "'static://…'",
    [`--key=sk_live_${BODY}, x`]: '--key=sk_live_…, x',
    [`https://api/console#/set-password/pw_${BODY}.`]: 'https://api/console#/set-password/pw_….',
    [`/agents/static%3A%2F%2F${BODY} /x/static:/${BODY}`]: '/agents/static%3A%2F%2F… /x/static:/…',
    // Mistyped and broken by a paste.
    [`sk_live_Q7r2Xw9L.Q7r2Xw9LQ7r2Xw9L!Q7`]: 'sk_live_…',
    [`got 2: static://${BODY}, ${BODY}.`]: 'got 2: static://….',
    [`"st_inv_${BODY}\n${BODY}"`]: '"st_inv_…"',
    [`"st_inv_${BODY}\\n${BODY}"`]: '"st_inv_…"',
    [`sk_live_\n${BODY} st_inv_ ${BODY}`]: 'sk_live_… st_inv_…',
    [`no\\npw_${BODY}`]: 'no\\npw_…',
    [`SK_LIVE_Q7r2 ${BODY}`]: 'SK_LIVE_…',
    // As part of a URL.
    [`https://x/#%23pw_${BODY}&u=a%3Dsu%5F${BODY}`]: 'https://x/#%23pw_…',
    [`/keys/sk%5Flive%5F${BODY} /st%5finv%5f${BODY}`]: '/keys/sk%5Flive%5F… /st%5finv%5f…',
    [`/r?to=static%253A%252F%252F${BODY}`]: '/r?to=static%253A%252F%252F…',
  }
  for (const [text, expected] of Object.entries(redacted)) assert.equal(redactSecrets(text), expected)
  const kept = [
    'sk_live_… or st_inv_… or static://…',
    'It does not begin with static://. Copy it again.',
    'su_chef',
    'backup_2026-11-18T12-37',
  ]
  // The part of a key that lists show.
  for (const text of [...kept, 'key sk_live_Q7r2Xw9L… still works', 'invite su_Q7r2Xw9LQ7']) {
    assert.equal(redactSecrets(text), text)
  }
})

test('a long text made to slow redaction down is redacted in no time', () => {
  const words = [`${'b'.repeat(19)} `, `${'b'.repeat(20)} `, `${'b'.repeat(20)}!`]
  const signs = ['/', '%2F', '%252F', '%5F', '%23', ' ', ', ', 'x ', '!']
  const parts = [...signs, ...words, 'static:/', 'sk_live_!', 'sk%5Flive%5F ', 'st_inv_', 'st_inv_ ', 'pw_!', '%23pw_']
  for (const prefix of ['static:', 'static%3A', 'sk_live_', 'sk%5Flive%5F', 'st_inv_', 'st_inv_a', 'su_', '']) {
    for (const part of parts) {
      const started = performance.now()
      redactSecrets(prefix + part.repeat(20_000 / part.length))
      const ms = performance.now() - started
      // Milliseconds, even on a slow machine; it took seconds when the work grew with the square of the length.
      assert.ok(ms < 1000, `${prefix} and 20,000 characters of ${part}: ${ms} ms`)
    }
  }
})
