/** Refusals as errors, and questions that are awaited. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { AuthError, ERRORS, type ErrorCode, StaticError } from '@static/protocol'
import { ErrorSchema, ResumeResponseSchema } from '@static/protocol/relay'
import type { Outcome, RelaySession } from '../../src/ports.ts'
import { call, refusalError } from '../../src/session/refusal.ts'
import { RESUME } from './stage.ts'
import { refusedWith } from './support.ts'

function sessionOf(outcome: Outcome): RelaySession {
  return {
    request: (_body, done) => queueMicrotask(() => done(outcome)),
    ack: () => {},
    hold: () => {},
    release: () => {},
    close: () => Promise.resolve(),
  }
}

test('every known code becomes its error', () => {
  for (const code of Object.keys(ERRORS) as ErrorCode[]) {
    const error = refusalError(create(ErrorSchema, { code, message: 'So it is.', retryAfterMs: 1500 }))
    assert.equal(error.code, code)
    assert.equal(error.name, ERRORS[code].family)
    assert.equal(error.message, 'So it is.')
    assert.equal(error.details.retryAfter, 1.5)
  }
  assert.ok(refusalError(create(ErrorSchema, { code: 'auth_failed' })) instanceof AuthError)
})

test('without words the table has some', () => {
  assert.equal(refusalError(create(ErrorSchema, { code: 'queue_full' })).message, ERRORS.queue_full.help)
})

test('an unknown code is an internal error that names it, also one that every object has', () => {
  for (const code of ['too_hot', 'toString', '__proto__', '']) {
    const error = refusalError(create(ErrorSchema, { code, message: 'Hm.' }))
    assert.equal(error.code, 'internal_error')
    assert.ok(error.message.includes(`"${code}"`))
  }
})

test('a call resolves with its answer and rejects with what became of it otherwise', async () => {
  const body = { case: 'resume', value: create(ResumeResponseSchema, { more: true }) } as const
  assert.ok(RESUME.case === 'resume')
  const answer = await call(sessionOf({ type: 'answered', body }), RESUME)
  assert.equal(answer.more, true)
  const error = create(ErrorSchema, { code: 'not_found', message: 'No such channel.' })
  await assert.rejects(
    call(sessionOf({ type: 'refused', error }), RESUME),
    refusedWith('not_found', /^No such channel\.$/),
  )
  const gone = StaticError.of('transport_error', 'Gone.')
  await assert.rejects(call(sessionOf({ type: 'lost', error: gone }), RESUME), gone)
})
