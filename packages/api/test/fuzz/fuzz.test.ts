/** Fuzzes what the API parses: keys, one-time tokens, and the bodies of requests. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fuzz } from '@static/testkit/fuzz'
import { ERRORS } from '@static/protocol'
import fastify from 'fastify'
import type { App } from '../../src/http/app.ts'
import { useStrictJson } from '../../src/http/json.ts'
import { toStaticError } from '../../src/http/problem.ts'
import { makeApiKey, parseApiKey } from '../../src/secrets/api-key.ts'
import { makeOneTimeToken, parseOneTimeToken } from '../../src/secrets/one-time-token.ts'

test('API keys and one-time tokens', async (t) => {
  const words = ['sk_live_', 'sk_test_', 'pw_', 'su_']
  await fuzz(t, {
    name: 'api-keys',
    seeds: [makeApiKey('live'), makeApiKey('test'), makeOneTimeToken('pw').text].map((text) => Buffer.from(text)),
    words,
    decode: (bytes) => {
      const text = Buffer.from(bytes).toString('latin1')
      parseApiKey(text)
      parseOneTimeToken('pw', text)
    },
  })
})

test('HTTP bodies: any body is answered, none fails', async (t) => {
  const app = fastify() as unknown as App
  useStrictJson(app)
  app.setErrorHandler((error, _request, reply) => reply.status(ERRORS[toStaticError(error).code].status).send())
  const schema = {
    type: 'object',
    properties: { email: { type: 'string', maxLength: 254 }, plan: { enum: ['free', 'pro'] } },
    required: ['email'],
    additionalProperties: false,
  }
  app.post('/', { schema: { body: schema } }, () => ({}))
  t.after(() => app.close())
  await fuzz(t, {
    name: 'http-bodies',
    seeds: ['{"email":"a@b.example","plan":"free"}', '{"email":"\\ud800"}', '[]', ''].map((text) => Buffer.from(text)),
    words: ['{', '[', '"email":', '"__proto__":', '1e999', '\\u0000', '\ufeff'],
    decode: async (bytes) => {
      const headers = { 'content-type': 'application/json' }
      const { statusCode } = await app.inject({ method: 'POST', url: '/', headers, payload: Buffer.from(bytes) })
      assert.ok([200, 400].includes(statusCode), `status ${statusCode}`)
    },
  })
})
