import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { makeLog } from '../src/logger.ts'

test('no key, token or address is logged, even by mistake', () => {
  const lines: string[] = []
  const key = `sk_live_${'k3Y'.repeat(14)}`
  const token = 'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl'
  for (const pretty of [false, true]) {
    const log = makeLog({ write: (line) => lines.push(line), pretty, level: 'debug' })
    log.info({ key, nested: { token } }, `mail to ann.smith+x@example.co.uk about ${key}`)
    log.error({ err: new Error(`bad ${key} of bob@example.com`, { cause: new Error(token) }) }, 'failed')
  }
  const text = lines.join('')
  for (const secret of [key, key.slice(8), token, 'ann.smith', 'bob@example.com'])
    assert.ok(!text.includes(secret), text)
  assert.match(text, /sk_live_…/)
})

test('no link or one-time token is logged either, however it is spelt, and a line stays JSON', () => {
  const lines: string[] = []
  const log = makeLog({ write: (line) => lines.push(line), pretty: false, level: 'debug' })
  const body = 'Q7r2Xw9LQ7r2Xw9L_Q7r2Xw9L-Q7r2Xw9LQ7r2Xw9L'
  for (const prefix of ['SK_LIVE_', 'st_inv_', 'static://', 'pw_', 'su_', '%23pw_', 'sk%5Flive%5F']) {
    log.info({ url: `/x/${prefix}${body}` }, `a\n${prefix}${body}\n"${prefix}${body}"`)
  }
  log.info(`Bearer\neyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl at node.example.com`)
  for (const line of lines) assert.doesNotMatch(line, /Q7r2Xw9L|c2lnbmF0dXJl/)
  assert.equal(JSON.parse(lines.at(-1) ?? '').msg, 'Bearer\n[redacted] at node.example.com')
  for (const line of lines.slice(0, -1)) assert.match(JSON.parse(line).url, /^\/x\/[\w:/%]+…$/)
})

test('a long line made to slow redaction down is logged in no time, and a circular cause is logged', () => {
  const lines: string[] = []
  const log = makeLog({ write: (line) => lines.push(line), pretty: false, level: 'debug' })
  for (const part of ['a', 'eyJ-', 'eyJ.', 'a@', 'a/', 'a.', 'sk_live_!', 'st_inv_ ', '.']) {
    const started = performance.now()
    log.info(`${part.repeat(40_000 / part.length)} @${'b'.repeat(20_000)}`)
    const ms = performance.now() - started
    // It took seconds when the work grew with the square of the length.
    assert.ok(ms < 1000, `${part}: ${ms} ms`)
  }
  const error = new Error('x')
  error.cause = new Error('y', { cause: error })
  log.error({ err: error }, 'failed')
  assert.equal(JSON.parse(lines.at(-1) ?? '').err.cause.cause.message, 'x')
  // An object without a prototype has no text.
  log.error({ err: new Error('x', { cause: Object.create(null) as object }) }, 'failed')
  assert.equal(JSON.parse(lines.at(-1) ?? '').err.cause.message, 'unknown')
})

test('an error is logged with type, message and code; other fields, which may quote a row, are not', () => {
  const lines: string[] = []
  const log = makeLog({ write: (line) => lines.push(line), pretty: false, level: 'debug' })
  log.error({ err: Object.assign(new Error('duplicate key'), { code: '23505', detail: 'Key (email)=(x)' }) }, 'failed')
  log.error({ err: StaticError.of('unavailable', 'No database.', { cause: 'gone' }) }, 'failed')
  const [first, second] = lines.map((line) => JSON.parse(line))
  assert.deepEqual(Object.keys(first.err), ['type', 'message', 'code', 'stack'])
  assert.deepEqual(second.err, {
    type: 'TransportError',
    message: 'No database.',
    code: 'unavailable',
    cause: { message: 'gone' },
  })
})

test('log lines of a component name it; pretty lines are for people', () => {
  const lines: string[] = []
  const write = (line: string): void => void lines.push(line)
  makeLog({ write, pretty: false, level: 'info' }, 'relay').info('up')
  makeLog({ write, pretty: true, level: 'info' }, 'relay').info({ port: 1 }, 'up')
  makeLog({ write, pretty: false, level: 'info' }).info('up')
  assert.equal(JSON.parse(lines[0] ?? '').part, 'relay')
  assert.match(lines[1] ?? '', /^\d\d:\d\d:\d\d info up part="relay" port=1\n$/)
  assert.deepEqual(Object.keys(JSON.parse(lines[2] ?? '')), ['level', 'time', 'msg'])
})
