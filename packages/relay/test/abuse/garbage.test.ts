/** Peers that send what no decoder takes, too much of it, or nothing: closed one by one, and nobody else notices. */
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { create } from '@bufbuild/protobuf'
import { CELL_BYTES, cutEnvelope, ENVELOPE_LIMITS, makeCell, REVISION } from '@static/protocol'
import { encodeEnvelope, type WireForm } from '@static/protocol/envelope'
import { ClientMessageSchema, CloseReason } from '@static/protocol/relay'
import type { Agent } from '@static/testkit/agent'
import { randomNumbers, SEED } from '@static/testkit/random'
import { BOTH, type By, Scene, together } from './scene.ts'

const ROUNDS = 10
/** At once, of each kind of garbage. */
const SPEAKERS = 4
/** Honest agents need to open their sessions in that time, also on a busy machine. */
const OPEN_MS = 5000
/** Requests of one stream that may wait. */
const REQUESTS = 64

const random = randomNumbers(SEED)
function bytes(length: number): Buffer<ArrayBuffer> {
  return Buffer.from(Uint8Array.from({ length }, () => Math.floor(random() * 256)))
}

let scene: Scene
before(async () => {
  scene = await Scene.open({ session: { openMs: OPEN_MS }, streams: { requests: REQUESTS } })
})
after(() => scene.close())

/** The stream ends, and the last word is what it should be. */
async function closes(agent: Agent, reason: CloseReason, ...codes: string[]): Promise<void> {
  const closing = await agent.next('sessionClosing')
  const { code = '', message = '' } = closing.error ?? {}
  assert.equal(closing.reason, reason, message)
  assert.ok(codes.includes(code), `${code}: ${message}`)
  await agent.ended
}

/** A cell with a payload, whatever it says. */
function cell(type: number, payload: Uint8Array): Buffer<ArrayBuffer> {
  const made = Buffer.alloc(CELL_BYTES)
  made[0] = type
  made.writeUInt16BE(payload.length, 1)
  made.set(payload, 3)
  return made
}

/** However it ends. */
function closeOf(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()))
}

/** A request that is well but for what is done to its cell. */
function spoilt(form: WireForm, spoil: (cell: Uint8Array<ArrayBuffer>) => void): Uint8Array<ArrayBuffer> {
  const request = create(ClientMessageSchema, {
    requestId: 1n,
    body: { case: 'getChallenge', value: { revision: REVISION } },
  })
  const made = cutEnvelope(encodeEnvelope(form, ClientMessageSchema, request))
  spoil(made)
  return made
}

const GARBAGE: Readonly<Record<string, (form: WireForm) => Uint8Array<ArrayBuffer>>> = {
  'random cells': () => Buffer.concat([Buffer.of(9 + Math.floor(random() * 247)), bytes(CELL_BYTES * 2 - 1)]),
  'a length that does not fit': () => cell(5, new Uint8Array()).fill(0xff, 1, 3),
  'padding that is not zero': (form) => spoilt(form, (made) => made.fill(7, -1)),
  'a type that there is not': (form) => spoilt(form, (made) => made.fill(9, 0, 1)),
  'a last cell without a first': (form) => spoilt(form, (made) => made.fill(8, 0, 1)),
  'an envelope of noise': () => cutEnvelope(Buffer.concat([Buffer.of(0xff), bytes(200)])),
  'an acknowledgement of noise': () => makeCell('ack', Buffer.concat([Buffer.of(0xff), bytes(100)])),
  'an answer to no ping': () => makeCell('pong', bytes(8)),
  'a message without a body': () => cutEnvelope(Buffer.alloc(40)),
}

describe(`garbage, seed ${SEED}`, () => {
  for (const by of BOTH) {
    for (const [name, make] of Object.entries(GARBAGE)) {
      test(`${name} over ${by}: reported and closed`, async () => {
        const speak = async (): Promise<Agent> => {
          const agent = await scene.dial(by)
          agent.write(make(agent.form))
          return agent
        }
        const agents = await Promise.all(Array.from({ length: SPEAKERS }, speak))
        for (const agent of agents) await closes(agent, CloseReason.MALFORMED, 'invalid_request')
        await scene.pair.exchanges(2)
      })
    }
  }

  test('half a cell and nothing more: closed like any stream that is not opened', async () => {
    const speak = async (by: By): Promise<void> => {
      const agent = await scene.dial(by)
      // gRPC takes whole cells only, so its half is a cell of an envelope that never ends.
      agent.write(by === 'quic' ? bytes(500).fill(0, 0, 1) : cell(6, bytes(1021)))
      await closes(agent, CloseReason.EXPIRED, 'auth_failed')
    }
    await Promise.all(BOTH.map(speak))
  })

  test('noise below the protocol, on both ports', async () => {
    const { ports } = scene.relay
    for (let round = 0; round < ROUNDS; round++) {
      const plain = connect(ports.grpc, '127.0.0.1').on('error', () => {})
      const closed = [closeOf(plain)]
      plain.end(bytes(1 + Math.floor(random() * 2000)))
      plain.resume()
      const secure = connectTls({
        port: ports.grpc,
        host: '127.0.0.1',
        servername: 'localhost',
        ca: scene.home.ca,
        ALPNProtocols: [round % 2 === 0 ? 'h2' : 'http/1.1'],
      }).on('error', () => {})
      closed.push(closeOf(secure))
      await once(secure, 'secureConnect')
      secure.end(bytes(1 + Math.floor(random() * 2000)))
      secure.resume()
      await Promise.all(closed)
    }
    const udp = createSocket('udp4')
    for (let round = 0; round < 200; round++) {
      const packet = bytes(1 + Math.floor(random() * 1400))
      // Half of them look like first packets of QUIC.
      if (round % 2 === 0 && packet.length > 5) packet.set([0xc0 | (packet[0] ?? 0), 0, 0, 0, 1])
      await new Promise((resolve) => udp.send(packet, ports.quic, '127.0.0.1', resolve))
    }
    udp.close()
    await scene.pair.exchanges(10)
  })
})

describe('too much', () => {
  // Without its last cell: nobody waits for that to see that it is too long.
  const oversize = (limit: number): Uint8Array => cutEnvelope(Buffer.alloc(limit + 2000, 1)).subarray(0, -CELL_BYTES)

  for (const by of BOTH) {
    test(`an envelope over the limit, over ${by}: before the session, from a stranger, from a member`, async () => {
      const nobody = await scene.dial(by)
      nobody.write(oversize(ENVELOPE_LIMITS.unauthenticated))
      await closes(nobody, CloseReason.MALFORMED, 'too_large', 'invalid_request')
      const stranger = await scene.connect(by)
      stranger.write(oversize(ENVELOPE_LIMITS.authenticated))
      await closes(stranger, CloseReason.MALFORMED, 'too_large', 'invalid_request')
      const member = await scene.connect(by)
      await member.createChannel(`acme/test/large-${by}`)
      member.write(oversize(ENVELOPE_LIMITS.member))
      await closes(member, CloseReason.MALFORMED, 'too_large', 'invalid_request')
      await scene.pair.exchanges(5)
    })

    test(`an agent that does not wait for responses, over ${by}: closed; accepted messages are kept`, async () => {
      const hasty = await scene.connect(by)
      const channel = await hasty.createChannel(`acme/test/hasty-${by}`)
      const answers = await Promise.allSettled(
        Array.from({ length: REQUESTS * 20 }, (_, at) => hasty.send(channel, 0n, BigInt(at + 1))),
      )
      await closes(hasty, CloseReason.TOO_MANY_REQUESTS, 'rate_limited')
      const accepted = answers.filter(({ status }) => status === 'fulfilled').length
      assert.ok(accepted < answers.length)
      const back = await scene.connect(by, hasty.key)
      const { channels } = await back.request('resume', { channelIds: [channel] })
      assert.ok(Number(channels[0]?.lastCounter) >= accepted)
      assert.equal(channels[0]?.lastIndex, channels[0]?.lastCounter)
      await scene.pair.exchanges(5)
    })
  }
})

// At the same time, because each of them waits until its time is up.
describe('nothing', { concurrency: true }, () => {
  const silent: Readonly<Record<string, (by: By) => Promise<Agent>>> = {
    'asks for the challenge and is silent': async (by) => {
      const agent = await scene.dial(by)
      await agent.request('getChallenge', { revision: 2 })
      return agent
    },
    'pings and is nobody': async (by) => {
      const agent = await scene.dial(by)
      agent.ping()
      return agent
    },
  }
  for (const by of BOTH) {
    for (const [name, begin] of Object.entries(silent)) {
      test(`${name}, over ${by}: closed in time`, async () => {
        const begun = performance.now()
        await closes(await begin(by), CloseReason.EXPIRED, 'auth_failed')
        assert.ok(performance.now() - begun >= OPEN_MS * 0.9, 'It was closed too soon.')
      })
    }
  }

  test('a member may be idle', async () => {
    const [owner, member] = [await scene.connect('grpc'), await scene.connect('quic')]
    const channel = await together(owner, [member], 'acme/test/calm')
    // When this one is closed, those are older.
    const nobody = await scene.dial('grpc')
    await closes(nobody, CloseReason.EXPIRED, 'auth_failed')
    await owner.send(channel, 1n, 1n)
    assert.equal((await member.next('deliverMessage')).index, 2n)
  })
})
