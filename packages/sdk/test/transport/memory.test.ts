import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import type { StreamHandlers, Target } from '../../src/ports/index.ts'
import { makeMemoryTransport, type MemoryPeer } from '@static/testkit/transport/memory'
import { dial, refused } from './support.ts'

const TARGET: Target = { host: 'relay.example', port: 4433, serverName: 'relay.example', ca: undefined }

/** The relay's side, written down. */
class Played implements StreamHandlers {
  readonly peer: MemoryPeer
  readonly chunks: Uint8Array[] = []
  readonly lastWords: (StaticError | undefined)[] = []

  constructor(peer: MemoryPeer) {
    this.peer = peer
  }

  data(chunk: Uint8Array): void {
    this.chunks.push(chunk)
  }

  closed(reason: StaticError | undefined): void {
    this.lastWords.push(reason)
  }
}

function play(): { relays: Played[]; accept: (peer: MemoryPeer) => Played } {
  const relays: Played[] = []
  return {
    relays,
    accept: (peer) => {
      const played = new Played(peer)
      relays.push(played)
      // Before the agent has the stream: it must wait.
      peer.stream.write(Buffer.from('hello'))
      return played
    },
  }
}

void test('both ends receive from each other, and notice the end of either', async () => {
  const { relays, accept } = play()
  const transport = makeMemoryTransport(accept, { form: 'protobuf' })
  assert.equal(transport.form, 'protobuf')
  for (const who of ['agent', 'relay'] as const) {
    const line = await dial(transport, TARGET)
    const relay = relays.at(-1)!
    assert.equal(relay.peer.target, TARGET)
    line.stream.write(Buffer.from('and you'))
    const end = who === 'agent' ? line.stream : relay.peer.stream
    end.end()
    end.write(Buffer.from('too late'))
    assert.equal(await line.closed, undefined)
    relay.peer.cut()
    assert.equal(Buffer.concat(line.chunks).toString(), 'hello')
    assert.equal(Buffer.concat(relay.chunks).toString(), 'and you')
    assert.deepEqual([line.lastWords, relay.lastWords], [[undefined], [undefined]])
  }
})

void test('held data waits, and is lost when the connection is cut', async () => {
  const held: (() => void)[] = []
  const { relays, accept } = play()
  const line = await dial(makeMemoryTransport(accept, { schedule: (deliver) => held.push(deliver) }), TARGET)
  held.shift()?.()
  assert.equal((await line.received(5)).toString(), 'hello')
  line.stream.write(Buffer.from('lost'))
  relays[0]?.peer.cut()
  refused('connection_error', /^The line was cut\.$/)(await line.closed)
  for (const deliver of held) deliver()
  assert.deepEqual(relays[0]?.chunks, [])
  assert.equal(relays[0]?.lastWords.length, 1)
  assert.equal(line.lastWords.length, 1)
})

void test('a relay that accepts no one is unreachable', async () => {
  const transport = makeMemoryTransport(() => {
    throw StaticError.of('connection_error', 'Nobody listens here.')
  })
  await assert.rejects(dial(transport, TARGET), refused('connection_error', /^Nobody listens here\.$/))
})
