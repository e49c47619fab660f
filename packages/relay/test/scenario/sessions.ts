/** Sessions: who may open one, how it ends, what guests may do, who pays. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import {
  CloseReason,
  GetChallengeRequestSchema,
  GetChallengeResponseSchema,
  OpenSessionRequestSchema,
  OpenSessionResponseSchema,
} from '@static/protocol/relay'
import { Agent, makeKey } from '@static/testkit/agent'
import type { Way } from '@static/testkit/relay'
import { code, freshName, Stage, type StageOptions } from './stage.ts'

export function sessionScenarios(way: Way, options: () => Promise<StageOptions> = async () => ({})): void {
  describe(`sessions over ${way}`, () => {
    let stage: Stage
    before(async () => {
      stage = await Stage.open(way, {
        ...(await options()),
        settings: { guestLimit: 3, session: { pingMs: 1000, pongMs: 10_000, graceMs: 1 } },
      })
    })
    after(() => stage.close())

    test('the challenge names the relay that TLS verified', async () => {
      const agent = await stage.connect()
      assert.equal(agent.challenge?.relayName, 'localhost')
      assert.deepEqual(agent.opened?.agentId, agent.id)
      const wire = { ...stage.relay.wire(), serverName: 'other.example' }
      await assert.rejects(Agent.connect(wire), /The challenge names localhost, not other\.example/)
    })

    test('the opening tells the gRPC port of this host; a proxy tells its own', async () => {
      const { relay } = stage
      for (const kind of way === 'mixed' ? (['quic', 'grpc', 'proxy'] as const) : [way]) {
        const agent = await Agent.connect(relay.by(kind))
        assert.equal(agent.opened?.grpcPort, relay.grpcPortOf(kind))
        if (kind !== 'quic') {
          const client = await relay.grpc(kind)
          const [wanted, challenge] = [GetChallengeRequestSchema, GetChallengeResponseSchema]
          const asked = await client.unary('GetChallenge', wanted, { revision: 2 }, challenge)
          const answer = agent.answer('unary', asked.message, '')
          const [opening, opened] = [OpenSessionRequestSchema, OpenSessionResponseSchema]
          assert.equal(
            (await client.unary('OpenSession', opening, answer, opened)).message.grpcPort,
            relay.grpcPortOf(kind),
          )
          await client.close()
        }
        agent.close()
      }
    })

    test('a response to a challenge is valid once, on its stream, for its key', async () => {
      const first = await stage.dial()
      const challenge = await first.request('getChallenge', { revision: 2 })
      const answer = first.answer('session', challenge, '')
      const second = await stage.dial(first.key)
      await second.request('getChallenge', { revision: 2 })
      await assert.rejects(second.request('openSession', answer), code('auth_failed'))
      await second.ended
      await first.request('openSession', answer)
      const third = await stage.dial(first.key)
      await third.request('getChallenge', { revision: 2 })
      await assert.rejects(third.request('openSession', answer), code('auth_failed'))
      const forger = await stage.dial()
      await assert.rejects(forger.open('', { publicKey: first.key.publicKey }), code('auth_failed'))
      await forger.ended
    })

    test('an invalid token, or one of another agent, opens no session', async () => {
      const { api } = stage.relay
      const foreign = api.token('acme', { cnf: Buffer.from(makeKey().id).toString('hex') })
      const good = api.token('acme')
      for (const jwt of [
        'x.y.z',
        `${good.slice(0, -10)}${good.at(-10) === 'A' ? 'B' : 'A'}${good.slice(-9)}`,
        api.token('acme', { lifetime: -60 }),
        foreign,
      ]) {
        const agent = await stage.dial()
        await assert.rejects(agent.open(jwt), code('auth_failed'))
        await agent.ended
      }
      const key = makeKey()
      const bound = api.token('acme', { cnf: Buffer.from(key.id).toString('hex') })
      await (await stage.dial(key)).open(bound)
    })

    test('a session ends soon after its token expires, unless it is refreshed', async () => {
      const { api } = stage.relay
      const short = await stage.dial()
      const kept = await stage.dial()
      await Promise.all([short.open(api.token('acme', { lifetime: 4 })), kept.open(api.token('acme', { lifetime: 4 }))])
      await kept.refresh(api.token('acme'))
      await assert.rejects(kept.refresh(api.token('other')), code('auth_failed'))
      await assert.rejects(kept.refresh(api.token('acme', { mode: 'test' })), code('auth_failed'))
      const closing = await short.next('sessionClosing')
      assert.equal(closing.reason, CloseReason.EXPIRED)
      assert.equal(closing.error?.code, 'auth_failed')
      await short.ended
      await kept.createChannel(freshName())
    })

    test('a newer session replaces the older one, which is notified', async () => {
      const older = await stage.connect('acme')
      const newer = await stage.connect('acme', older.key)
      const closing = await older.next('sessionClosing')
      assert.equal(closing.reason, CloseReason.REPLACED)
      await older.ended
      await newer.createChannel(freshName())
    })

    test('a guest acts only where it is a member, at the owner’s cost and within the owner’s limit', async () => {
      const { channel, owner, members } = await stage.cast(1, 'guests')
      const [guest] = members as [Agent]
      const upload = guest.request('uploadKeyPackage', { keyPackages: [randomBytes(10)] })
      await assert.rejects(upload, code('api_key_required'))
      await assert.rejects(
        guest.request('addMember', { channelId: channel, agentId: owner.id }),
        code('api_key_required'),
      )
      for (const counter of [1n, 2n, 3n]) await guest.send(channel, 1n, counter)
      await assert.rejects(guest.send(channel, 1n, 4n), code('quota_exceeded'))
      await owner.send(channel, 1n, 1n)
      await guest.commit(channel, 1n)
      await guest.request('leave', { channelId: channel, notice: guest.notice(channel, 2n) })
    })

    test('an agent that acted for an account cannot act as a guest there', async () => {
      const { channel, members } = await stage.cast(1)
      const [bob] = members as [Agent]
      await bob.send(channel, 1n, 1n)
      const guest = await stage.connect(undefined, bob.key)
      await guest.request('resume', { channelIds: [channel] })
      await assert.rejects(guest.send(channel, 1n, 2n), code('api_key_required'))
    })

    test('test and live mode are not mixed', async () => {
      const { channel, owner, members } = await stage.cast(1)
      const [bob] = members as [Agent]
      const tester = await stage.dial(bob.key)
      await tester.open(stage.relay.api.token('member-0', { mode: 'test' }))
      await assert.rejects(tester.send(channel, 1n, 1n), code('mode_mismatch'))
      await owner.send(channel, 1n, 1n)
    })

    test('an exhausted quota is quota_exceeded; an unreachable API is unavailable', async () => {
      const { api } = stage.relay
      const owner = await stage.connect('poor')
      api.left.set('poor/live', 2)
      const channel = await owner.createChannel(freshName())
      await owner.send(channel, 0n, 1n)
      await owner.send(channel, 0n, 2n)
      await assert.rejects(owner.send(channel, 0n, 3n), code('quota_exceeded'))
      const cutOff = await stage.connect('cut-off')
      const other = await cutOff.createChannel(freshName())
      api.reachable = false
      try {
        await assert.rejects(cutOff.send(other, 0n, 1n), code('unavailable'))
        // What it has to say is refused for what is wrong with it first.
        await assert.rejects(cutOff.send(channel, 0n, 1n), code('not_found'))
      } finally {
        api.reachable = true
      }
    })
  })

  describe(`a full channel over ${way}`, () => {
    test('drops entries that fewer than half wait for, notifies those, then names the lagging members', async () => {
      const settings = { retention: { channelEntries: 80 } }
      const stage = await Stage.open(way, { ...(await options()), settings })
      try {
        const { channel, owner, members } = await stage.cast(2)
        const [bob, carol] = members as [Agent, Agent]
        carol.close()
        await carol.ended
        // Bob and the owner take everything; Carol is away.
        let index = 1n
        const say = async (agent: Agent, counter: bigint): Promise<void> => {
          ;({ index } = await agent.send(channel, 1n, counter))
          for (const reader of [owner, bob]) {
            await reader.next('deliverMessage')
            await reader.request('ack', { positions: [{ channelId: channel, index }] })
          }
        }
        for (let counter = 1n; counter <= 60n; counter++) {
          await say(owner, counter)
          await say(bob, counter)
        }
        const back = await stage.connect('member-1', carol.key)
        await back.request('resume', { channelIds: [channel] })
        const gap = await back.next('gap')
        assert.equal(gap.firstIndex, 2n)
        assert.equal(gap.commitLost, false)
        const next = await back.next('deliverMessage')
        assert.equal(next.index, (gap.position?.index ?? 0n) + 1n)
        // Now two of three take nothing: what half wait for is kept, and the sender is told for whom.
        let counter = 60n
        await assert.rejects(
          async () => {
            for (;;) await owner.send(channel, 1n, ++counter)
          },
          (error: unknown) => {
            assert.ok(error instanceof Error)
            assert.match(error.message, /^queue_full/)
            return true
          },
        )
        await owner.commit(channel, 1n)
      } finally {
        await stage.close()
      }
    })
  })
}
