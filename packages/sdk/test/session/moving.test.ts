/** An agent whose session moves from gRPC to QUIC while it waits for answers. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { StaticError } from '@static/protocol'
import { AddMemberRequestSchema, CloseReason, PollJoinRequestsRequestSchema } from '@static/protocol/relay'
import { Agent } from '../../src/agent/agent.ts'
import { ed25519, generateSignatureKeyPair, makeEngine } from '../../src/mls/index.ts'
import type { RelaySession, RequestBody, SessionInfo, Transport } from '../../src/ports/index.ts'
import { FORMS } from '../../src/session/io.ts'
import { openSession } from '../../src/session/core-runner.ts'
import { makeMemoryStore } from '@static/testkit/store/agent-memory'
import { makeMemoryTransport, type MemoryPeer } from '@static/testkit/transport/memory'
import { answering, LyingRelay } from '../support/lying-relay.ts'

const MINUTE_MS = 60_000
/** More than an agent that waits has a reason to ask. */
const MOST_REQUESTS = 100

const CHANNEL = new Uint8Array(16)
const POLL: RequestBody = {
  case: 'pollJoinRequests',
  value: create(PollJoinRequestsRequestSchema, { channelId: CHANNEL, waitMs: 25_000 }),
}
const ADD = {
  case: 'addMember' as const,
  value: create(AddMemberRequestSchema, { channelId: CHANNEL, agentId: new Uint8Array(32) }),
}

test('requests made during a move to QUIC are repeated there, and the event loop is not blocked', async (t) => {
  const relay = new LyingRelay()
  let skew = 0
  let quicIsUp = false
  const onQuic = new Set<MemoryPeer>()
  const reach = (way: SessionInfo['way']): Transport =>
    makeMemoryTransport(
      (peer) => {
        if (way === 'quic') onQuic.add(peer)
        return relay.accept(peer, FORMS[way])
      },
      { form: FORMS[way] },
    )
  const quic = reach('quic')
  const blocked: Transport = {
    form: quic.form,
    dial: async (target, handlers) => {
      if (!quicIsUp) throw StaticError.of('connection_error', 'No UDP.')
      return await quic.dial(target, handlers)
    },
  }
  // The relay closes the old session before it opens the new one.
  const opening = Promise.withResolvers<() => void>()
  const request = relay.request.bind(relay)
  relay.request = (line, requestId, body) => {
    if (body.case === 'openSession' && onQuic.has(line.peer)) opening.resolve(() => request(line, requestId, body))
    else request(line, requestId, body)
  }
  // What is asked on gRPC is never answered.
  const isAsked = (name: string): boolean => name === 'pollJoinRequests' || name === 'addMember'
  let isMoved = false
  relay.answer = (_agent, asked, honest) => {
    if (!isAsked(asked.case ?? '')) return honest()
    if (!isMoved) return undefined
    return asked.case === 'addMember'
      ? answering({ case: 'addMember', value: { keyPackage: new Uint8Array([7]) } })
      : answering({ case: 'pollJoinRequests', value: { requests: [] } })
  }

  const { publicKey, seed } = generateSignatureKeyPair()
  const endpoint = (way: SessionInfo['way']) =>
    ({
      way,
      addresses: [{ host: 'relay.test', port: 1 }],
      serverName: 'relay.test',
      url: `${way}://relay.test:1`,
    }) as const
  let requests = 0
  let counted: RelaySession | undefined
  const agent = new Agent({
    store: makeMemoryStore({ identity: Buffer.from('alice'), publicKey, secretKey: seed }),
    engine: makeEngine(),
    hasTokens: false,
    now: Date.now,
    chance: () => 0.5,
    random: (bytes) => new Uint8Array(randomBytes(bytes)),
    connect: (listener, key, pins) => {
      const { session, ready } = openSession({
        endpoint: endpoint('quic'),
        fallback: true,
        ca: undefined,
        transports: { quic: blocked, grpc: reach('grpc') },
        pins,
        publicKey: key.publicKey,
        sign: ed25519.signer(key),
        tokens: undefined,
        listener,
        now: () => Date.now() + skew,
      })
      const counting: RelaySession = {
        request: (body, done) => {
          if (++requests > MOST_REQUESTS) throw new Error('It asks again and again, and nothing else happens.')
          session.request(body, done)
        },
        ack: (positions) => session.ack(positions),
        hold: () => session.hold(),
        release: () => session.release(),
        close: async () => await session.close(),
      }
      counted = counting
      return { session: counting, ready }
    },
  })
  t.after(() => agent.close())
  await agent.ready
  const polling = agent.requests.outcome(POLL)
  const adding = agent.requests.ask(ADD, ({ keyPackage }) => keyPackage)
  const asked = (): string[] => relay.asked.map(({ body }) => body.case ?? '').filter((name) => isAsked(name))
  await relay.until(() => asked().length === 2)

  quicIsUp = true
  skew = MINUTE_MS + 1000
  counted?.ack([{ channelId: CHANNEL, index: 0n }])
  const open = await opening.promise
  relay.push(agent.agentId, answering({ case: 'sessionClosing', value: { reason: CloseReason.REPLACED } }))
  // Nothing to ask it on: not one request, however often the loop turns.
  for (let turn = 0; turn < 10; turn++) await setImmediate()
  assert.deepEqual(asked(), ['pollJoinRequests', 'addMember'])
  // And whoever asks now waits as well.
  const late = agent.requests.outcome(POLL)
  for (let turn = 0; turn < 10; turn++) await setImmediate()
  isMoved = true
  open()
  assert.deepEqual(await adding, new Uint8Array([7]))
  for (const outcome of [await polling, await late]) assert.equal(outcome.type, 'answered')
  assert.deepEqual(asked().slice(2).sort(), ['addMember', 'pollJoinRequests', 'pollJoinRequests'])
  assert.ok(requests < 20, `${requests} requests`)
})
