/** Fuzzes what the two ends of A2A decode before the SDK does: calls with their parameters, and responses. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { A2AError } from '@a2a-js/sdk/errors'
import { fuzz } from '@static/testkit/fuzz'
import { decodeEnvelope, decodeResponse, encodeEnvelope } from '../../src/envelope.ts'

const WORDS = [
  '"jsonrpc":"2.0"',
  '"id":1',
  '"parts":[',
  '"data":',
  '"metadata":{',
  '"error":{"code":1,"message":""}',
  '[[[[',
]
const bytes = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text))
/** As the payload of a message is read, but for bytes that are not UTF-8, which never reach a decoder. */
const text = (input: Uint8Array): string => Buffer.from(input).toString()
const isRefusal = (error: unknown): boolean => error instanceof A2AError || error instanceof SyntaxError

test('calls and their parameters', async (t) => {
  const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hi' }, { data: [[{}]] }], metadata: { a: [0] } }
  const call = { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }
  await fuzz(t, {
    name: 'a2a-calls',
    seeds: [
      bytes(encodeEnvelope({ 'A2A-Version': '1.0', traceparent: '00-1-01' }, JSON.stringify(call))),
      bytes(encodeEnvelope({}, '{}')),
    ],
    words: [...WORDS, '"parameters":{', '"call":{'],
    decode: (input) => {
      const { parameters, call } = decodeEnvelope(text(input))
      assert.ok(
        Object.entries(parameters).every(([name, value]) => name === name.toLowerCase() && value.length <= 8192),
      )
      // Bounded, so it can be written again.
      assert.deepEqual(decodeEnvelope(encodeEnvelope(parameters, JSON.stringify(call))), { parameters, call })
    },
    isRefusal,
  })
})

test('responses', async (t) => {
  const task = { id: 't', contextId: 'c', status: { state: 'TASK_STATE_WORKING' } }
  await fuzz(t, {
    name: 'a2a-responses',
    seeds: [
      bytes(JSON.stringify({ jsonrpc: '2.0', id: 1, result: { task } })),
      bytes(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32_700, message: 'Invalid JSON payload.' } })),
      bytes(JSON.stringify({ jsonrpc: '2.0', id: 1, result: null })),
    ],
    words: WORDS,
    decode: (input) => {
      const { result, error } = decodeResponse(text(input), { id: 1, method: 'GetTask' })
      assert.ok((result === undefined) !== (error === undefined))
      assert.equal(typeof (result ?? error), 'object')
    },
    isRefusal: (error) => error instanceof A2AError,
  })
})
