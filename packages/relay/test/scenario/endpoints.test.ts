import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Agent, makeKey } from '@static/testkit/agent'
import { startTestRelay } from '@static/testkit/relay'
import { quicWire } from '@static/testkit/agent/wires'

test('a full QUIC endpoint redirects a new session to another port', async () => {
  // No ping gets lost on a busy machine.
  const session = { pingMs: 30_000, pongMs: 30_000 }
  const settings = { session, streams: { quicPerEndpoint: 1 } }
  const relay = await startTestRelay('quic', { endpoints: 2, settings })
  try {
    const { api, ca, quicPorts } = relay
    const [first = 0, second = 0] = quicPorts
    assert.equal(second, first + 1)
    const alice = await Agent.connect(quicWire({ port: first, ca }), { jwt: api.token('acme') })
    const turnedAway = await Agent.dial(quicWire({ port: first, ca }), makeKey())
    await assert.rejects(turnedAway.open())
    const closing = await turnedAway.next('sessionClosing')
    assert.equal(closing.error?.code, 'unavailable')
    assert.equal(closing.error?.redirectPort, second)
    const bob = await Agent.connect(quicWire({ port: second, ca }), { jwt: api.token('acme') })
    const channel = await alice.createChannel('acme/test/two-ports')
    await alice.commit(channel, 0n, { adds: [bob.id] })
    await bob.request('resume', { channelIds: [channel] })
    await alice.send(channel, 1n, 1n)
    assert.equal((await bob.next('deliverMessage')).index, 2n)
    alice.close()
    bob.close()
  } finally {
    await relay.close()
  }
})
