/** A proxy in front of several relay nodes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { REVISION, toHex } from '@static/protocol'
import { decodeEnvelope } from '@static/protocol/envelope'
import { ClientMessageSchema, ServerMessageSchema } from '@static/protocol/relay'
import { certificates } from '@static/testkit/certificates'
import { quietPort } from '@static/testkit/ports'
import { startTestRelay } from '@static/testkit/relay'
import { QuicUpstream } from '../../src/proxy/quic-upstream.ts'
import { cellReader, helloCells, requestCells } from '../../src/proxy/relay-cells.ts'
import type { UpstreamStream } from '../../src/proxy/upstream.ts'

/** Opens a stream; the id of the relay that answers on it. */
async function answering(upstream: QuicUpstream): Promise<{ readonly stream: UpstreamStream; readonly id: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const stream = await upstream.open({
    data: cellReader(({ type, payload }) => {
      if (type !== 'envelope') return
      const { body } = decodeEnvelope('cbor', ServerMessageSchema, payload, payload.length)
      if (body.case === 'getChallenge') resolve(toHex(body.value.relayId))
    }, reject),
    closed: () => reject(new Error('closed')),
  })
  stream.write(helloCells('127.0.0.1'))
  const body = { case: 'getChallenge', value: { revision: REVISION } } as const
  stream.write(requestCells(create(ClientMessageSchema, { requestId: 1n, body })))
  return { stream, id: await promise }
}

void test('a proxy passes over a dead node, and leaves one that sends its sessions elsewhere', async (t) => {
  const { authority, client: clientCertificate } = await certificates()
  const nodes = [await startTestRelay('quic'), await startTestRelay('quic')]
  t.after(() => Promise.all(nodes.map((node) => node.close())))
  const targets = [await quietPort(), ...nodes.map(({ quicPorts: [port = 0] }) => port)].map((port) => ({
    host: '127.0.0.1',
    port,
    serverName: 'localhost',
    ca: authority.cert,
    clientCertificate,
    probeAfterMs: 100,
  }))
  const upstream = new QuicUpstream(targets, 1, Date.now, () => 0)
  t.after(() => upstream.close())
  await upstream.dial()
  const first = await answering(upstream)
  assert.equal((await answering(upstream)).id, first.id)
  first.stream.retire()
  // Twice, as with two agents that hear of it.
  first.stream.retire()
  const second = await answering(upstream)
  assert.notEqual(second.id, first.id)
  assert.equal((await answering(upstream)).id, second.id)
})
