/** Whose incomplete envelope a proxy drops when these take too much memory. */
import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { cutEnvelope } from '@static/protocol'
import { encodeEnvelope } from '@static/protocol/envelope'
import { ClientMessageSchema, ServerMessageSchema } from '@static/protocol/relay'
import type { StreamId, Transport } from '../../src/ports.ts'
import { ProxySessions } from '../../src/proxy/sessions.ts'
import type { Upstream, UpstreamHandlers } from '../../src/proxy/upstream.ts'
import { settingsFrom } from '../../src/settings.ts'

const opened = create(ServerMessageSchema, { requestId: 1n, body: { case: 'openSession', value: {} } })
const OPENED = cutEnvelope(encodeEnvelope('cbor', ServerMessageSchema, opened))

interface World {
  /** Opens a session from an address. */
  readonly join: (address: string) => Promise<StreamId>
  /** Sends all but the last cell of an envelope. */
  readonly send: (id: StreamId, bytes: number) => void
  readonly ended: StreamId[]
}

function makeWorld(joiningBytes: number): World {
  const ended: StreamId[] = []
  const transport: Transport = { write: () => {}, pace: () => {}, end: (id) => ended.push(id), stop: async () => {} }
  const toAgents: UpstreamHandlers[] = []
  const upstream: Upstream = {
    open: async (handlers) => {
      toAgents.push(handlers)
      return { write: () => {}, end: () => {}, bufferedBytes: 0, retire: () => {} }
    },
  }
  const settings = settingsFrom({ streams: { joiningBytes } })
  const proxy = new ProxySessions(
    upstream,
    () => ({ grpc: 1, files: 0, filesUrl: '' }),
    () => {},
    settings,
  )
  const sessions = proxy.streams(() => transport)
  return {
    ended,
    join: async (address) => {
      const id = sessions.opened({ transport: 'grpc', form: 'protobuf', address, proxy: false }) ?? 0
      await nextTurn()
      toAgents.at(-1)?.data(OPENED)
      return id
    },
    send: (id, bytes) => {
      const body = { case: 'sendCommit', value: { commit: new Uint8Array(bytes) } } as const
      const message = create(ClientMessageSchema, { requestId: 2n, body })
      sessions.received(id, cutEnvelope(encodeEnvelope('protobuf', ClientMessageSchema, message)).subarray(0, -1024))
    },
  }
}

const CROWDS: Readonly<Record<string, (at: number) => string>> = {
  'one address': () => '198.51.100.1',
  'a /48': (at) => `2001:db8:1:${at.toString(16)}::1`,
}

for (const [name, addressOf] of Object.entries(CROWDS)) {
  test(`a proxy takes memory that is short from ${name} with many short envelopes, not from a longer one`, async () => {
    const { join, send, ended } = makeWorld(8_000_000)
    const honest = await join('203.0.113.1')
    send(honest, 200_000)
    for (let at = 0; at < 120; at++) send(await join(addressOf(at)), 100_000)
    assert.ok(ended.length >= 20, `${ended.length} ended`)
    assert.ok(!ended.includes(honest))
  })
}

test('of the address that has most, a proxy drops the longest envelope', async () => {
  const { join, send, ended } = makeWorld(2_000_000)
  const [short, long] = [await join('198.51.100.1'), await join('198.51.100.1')]
  send(short, 300_000)
  send(long, 600_000)
  send(await join('203.0.113.1'), 500_000)
  assert.deepEqual(ended, [long])
})
