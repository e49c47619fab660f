/** Calls that the relay cuts off itself, because others use up the memory for calls. */
import assert from 'node:assert/strict'
import { constants } from 'node:http2'
import { test } from 'node:test'
import { frameMessage } from '@static/protocol'
import { connectGrpc, type GrpcClient } from '@static/testkit/agent/grpc-client'
import { CALL_BYTES } from '../../src/transport/http2/budget.ts'
import { SLOW_MS } from '../../src/transport/http2/limits.ts'
import { type GrpcBench, startGrpcBench } from '../support/grpc-fakes.ts'
import { Gauge } from '../support/grpc-gauge.ts'

const RESETS = 10
/** Room for 8 calls, 4 of each address, with their short bodies. */
const LIMITS = {
  bodyBytes: 8.5 * CALL_BYTES,
  bodyBytesPerAddress: 4.5 * CALL_BYTES,
  resetsPerAddress: RESETS,
  closeMs: 200,
}

/** A connection from an address of this machine. */
async function dial({ transport: { port }, ca }: GrpcBench, localAddress: string): Promise<GrpcClient> {
  return connectGrpc({ host: '127.0.0.1', port, ca, localAddress })
}

/** Makes calls at once; each one that ends adds to `closed`, and its code to `codes`. */
function call(client: GrpcClient, count: number, closed: Gauge, codes: Set<number | undefined>): void {
  for (let at = 0; at < count; at++) {
    const stream = client.request('/static.relay.v1.Relay/GetChallenge', { 'content-type': 'application/grpc' })
    stream.on('error', () => {})
    stream.resume().on('close', () => {
      codes.add(stream.rstCode)
      closed.add(1)
    })
    stream.end(frameMessage(new Uint8Array()))
  }
}

test(
  'an address is not slowed for calls that are cut off because others use up the memory',
  { timeout: 30_000 },
  async () => {
    await using bench = await startGrpcBench({ limits: LIMITS })
    bench.calls.answer = () => new Promise(() => {})
    const others = await Promise.all([dial(bench, '127.0.0.2'), dial(bench, '127.0.0.3')])
    for (const client of others) call(client, 4, new Gauge(), new Set())
    await bench.calls.called.reaches(8)

    // At most its share of the memory is held for this address; all other calls are cut off.
    const closed = new Gauge()
    const codes = new Set<number | undefined>()
    const office = await Promise.all([1, 2, 3].map(() => dial(bench, '127.0.0.9')))
    for (const client of office) call(client, RESETS, closed, codes)
    await closed.reaches(3 * RESETS - 4)
    assert.deepEqual(codes, new Set([constants.NGHTTP2_ENHANCE_YOUR_CALM]))
    assert.deepEqual(bench.cuts, [], 'connections were cut')
    const next = await dial(bench, '127.0.0.9')
    for (const { session } of [next, ...office, ...others]) session.destroy()
  },
)

test(
  'a flood of calls that are cut off still ends its connection, and slows its address',
  { timeout: 30_000 },
  async () => {
    await using bench = await startGrpcBench({ limits: { ...LIMITS, streams: 100, resets: 20 } })
    bench.calls.answer = () => new Promise(() => {})
    const client = await dial(bench, '127.0.0.9')
    const closed = new Gauge()
    call(client, 100, closed, new Set())
    await closed.reaches(90)
    assert.deepEqual(bench.cuts, [])
    const ended = new Promise((resolve) => client.session.once('close', resolve))
    call(client, 50, closed, new Set())
    await ended
    assert.deepEqual(bench.cuts, ['resets'])
    // The first begins at once, the others at the pace of a slowed address.
    const start = performance.now()
    const later = await Promise.all([1, 2, 3, 4, 5].map(() => dial(bench, '127.0.0.9')))
    assert.ok(performance.now() - start >= 4 * SLOW_MS - 10)
    for (const { session } of later) session.destroy()
  },
)
