/** Warnings about handlers that fail: what they say, what they must not say, and how many there are. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { errorText } from '../../src/agent/log/error-text.ts'
import type { AgentEvent } from '../../src/agent/events.ts'
import { HandlerLog } from '../../src/agent/log/handler-log.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const PAYLOAD = 'order {"name":"Ada Lovelace","card":"4000 1234"}\nsecond line'

/** What a function throws. */
function thrown(work: () => unknown): unknown {
  try {
    work()
  } catch (error) {
    return error
  }
  assert.fail('It threw nothing.')
}

test('an error is shown with its stack and causes, but without the payload', () => {
  const quoting = [
    thrown(() => JSON.parse(PAYLOAD)),
    new Error(`cannot book ${PAYLOAD}`),
    new Error('no such person: Ada Lovelace!', { cause: new RangeError(`bad ${PAYLOAD}`) }),
    Object.assign(new Error(PAYLOAD), { message: 'changed later' }),
    `thrown as a text: ${PAYLOAD}`,
  ]
  for (const error of quoting) {
    const text = errorText(error, bytes(PAYLOAD))
    assert.doesNotMatch(text, /Lovelace|4000 1234|second line/, text)
    if (error instanceof Error)
      assert.match(text, /^\w*Error: .*\n(?: +at .*\n)*? +at .*handler-log\.test\.ts:\d+:\d+/, text)
  }
  assert.match(errorText(quoting[2], bytes(PAYLOAD)), /^Error: no such person: ….*\n[^]*\ncaused by RangeError: bad …$/)
  assert.match(
    errorText(new Error('cannot book 4711 here, 47110'), bytes('4711')),
    /^Error: cannot book … here, 47110\n/,
  )
})

test('an error is shown without secrets and control characters, and at a bounded length', () => {
  const key = 'sk_live_Q7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7r2Xw9LQ7r2Xw'
  const secret = errorText(new Error(`key ${key}`, { cause: new Error(`st_inv_${key}`) }), bytes(''))
  assert.match(secret, /^Error: key sk_live_…\n[^]*caused by Error: st_inv_…$/)
  assert.match(errorText(new Error('one\ntwo\u001b[2J\u202e'), bytes('x')), /^Error: one two \[2J \n/)
  const endless = new Error('x'.repeat(1_000_000), { cause: undefined })
  endless.cause = endless
  assert.ok(errorText(endless, bytes('')).length < 10_000)
  for (const odd of [Object.create(null), { toString: () => 5 as never }, undefined, Symbol('a'), 7n])
    assert.equal(typeof errorText(odd, bytes('x')), 'string')
})

/** A log with a clock that the test moves. */
function logOf(unlessRead: boolean): { log: HandlerLog; texts: string[]; time: { now: number; isRead: boolean } } {
  const texts: string[] = []
  const time = { now: 1, isRead: false }
  const logger = { warn: (text: string) => void texts.push(text) }
  return {
    log: new HandlerLog(
      { logger, unlessRead },
      () => time.now,
      () => time.isRead,
    ),
    texts,
    time,
  }
}

const FAILED: Extract<AgentEvent, { type: 'request_failed' }> = {
  type: 'request_failed',
  channel: 'acme/a/b',
  sender: 'ab'.repeat(32),
  index: 7,
  reason: 'PAYLOAD',
}

test('by default warnings end while events are read; a logger of the application gets all', () => {
  const [usual, own] = [logOf(true), logOf(false)]
  for (const { log, time } of [usual, own]) {
    for (const isRead of [false, true]) {
      time.isRead = isRead
      log.warn(FAILED, { error: new Error('broken'), payload: bytes('x') })
    }
    // It is an answer.
    log.warn(FAILED, { error: StaticError.of('not_found'), payload: bytes('x') })
    log.warn({ ...FAILED, type: 'poison', messageId: '0f', attempts: 10, isPutAside: true }, undefined)
  }
  assert.deepEqual([usual.texts.length, own.texts.length], [1, 3])
  assert.match(
    usual.texts[0] ?? '',
    /^static: The handler of `serve` failed on request 7 from agent abababab… in channel acme\/a\/b\. .*\nError: broken\n\s+at /,
  )
  assert.match(own.texts[2] ?? '', /attempt 10\. The message was put aside: `channel\.poison`\.$/)
  assert.doesNotMatch([...usual.texts, ...own.texts].join(''), /PAYLOAD/)
})

test('a trust list that cannot be read and a statement that ends are warned of while nobody reads events', () => {
  const { log, texts, time } = logOf(true)
  log.warn({ type: 'trust_failed', error: StaticError.of('store_failed', 'The disk is full.') }, undefined)
  log.warn({ type: 'proof_ending', domain: 'acme.example', until: new Date(0) }, undefined)
  assert.deepEqual(texts, [
    'static: Proofs cannot be checked. The disk is full.',
    'static: The statement of acme.example about this agent ends at 1970-01-01T00:00:00.000Z. Have it signed again: `static domain sign`.',
  ])
  time.isRead = true
  log.warn({ type: 'trust_failed', error: StaticError.of('store_failed', 'The disk is full.') }, undefined)
  assert.equal(texts.length, 2)
})

test('a member cannot flood the log, and a logger that throws does no harm', () => {
  const { log, texts, time } = logOf(false)
  for (let count = 0; count < 1000; count++) log.warn(FAILED, undefined)
  assert.equal(texts.length, 30)
  time.now += 60_000
  log.warn(FAILED, undefined)
  assert.match(texts[30] ?? '', /970 failures before it were not shown\.$/)
  const broken = { warn: () => assert.fail('broken') }
  new HandlerLog(
    { logger: broken, unlessRead: false },
    () => 1,
    () => false,
  ).warn(FAILED, undefined)
})
