/** What the port holds for callers that do not finish their requests, or do not read their answers. */
import assert from 'node:assert/strict'
import { type ClientHttp2Stream, constants } from 'node:http2'
import { test } from 'node:test'
import { frameMessage } from '@static/protocol'
import type { GrpcClient } from '@static/testkit/agent/grpc-client'
import { STRANGER, startGrpcBench } from '../support/grpc-fakes.ts'

const RESOURCE_EXHAUSTED = '8'

/** Subscribes with a body of so many bytes that are no valid message; a byte is missing if it is to be held. */
function subscribe(client: GrpcClient, token: string, bytes: number): ClientHttp2Stream {
  const stream = client.request('/static.relay.v1.Relay/Subscribe', {
    'content-type': 'application/grpc',
    'static-session': token,
  })
  stream.on('error', () => {})
  stream.write(frameMessage(new Uint8Array(bytes)).subarray(0, -1))
  return stream.resume()
}

/** The status of a call that is refused. */
async function statusOf(stream: ClientHttp2Stream): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  stream.once('response', (headers) => resolve(headers['grpc-status']))
  stream.once('close', () => reject(new Error('The stream was closed without a status.')))
  return promise
}

test('bodies of native subscriptions count towards the budget of an address, and are released', async () => {
  await using bench = await startGrpcBench({ limits: { bodyBytesPerAddress: 100_000 } })
  const client = await bench.connect()
  const holding = subscribe(client, 'token', 60_000)
  const endsSoonWith = async (status: string): Promise<void> => {
    for (let tries = 0; tries < 200; tries++) {
      const next = subscribe(client, 'token', 60_000)
      next.end('x')
      if ((await statusOf(next)) === status) return
    }
    assert.fail(`never ${status}`)
  }
  await endsSoonWith(RESOURCE_EXHAUSTED)
  holding.close(constants.NGHTTP2_CANCEL)
  // Read whole, and found to be no request: what it held is given back each time.
  for (let round = 0; round < 5; round++) await endsSoonWith('3')
})

test('a native subscription of a stranger may be as long as any of its requests, and no longer', async () => {
  await using bench = await startGrpcBench()
  const client = await bench.connect()
  assert.equal(await statusOf(subscribe(client, STRANGER, 8200)), RESOURCE_EXHAUSTED)
  const short = subscribe(client, STRANGER, 8000)
  short.end('x')
  assert.equal(await statusOf(short), '3')
  const known = subscribe(client, 'token', 60_000)
  known.end('x')
  assert.equal(await statusOf(known), '3')
})
