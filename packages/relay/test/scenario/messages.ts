/** Messages: order, durability, duplicates, limits. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { chainNext, commitBody, MAX_CIPHERTEXT_BYTES } from '@static/protocol'
import { type Agent, Refused, sha256 } from '@static/testkit/agent'
import type { Way } from '@static/testkit/relay'
import { code, Stage, type StageOptions } from './stage.ts'

export function messageScenarios(way: Way, options: () => Promise<StageOptions> = async () => ({})): void {
  describe(`messages over ${way}`, () => {
    let stage: Stage
    before(async () => {
      stage = await Stage.open(way, await options())
    })
    after(() => stage.close())

    test('all members get messages in one order, the sender without the body', async () => {
      const { channel, owner, members } = await stage.cast(2)
      const [bob, carol] = members as [Agent, Agent]
      await Promise.all(
        [owner, bob].flatMap((agent) =>
          [1n, 2n, 3n].map((counter) => agent.send(channel, 1n, counter, Buffer.from(`say ${counter}`))),
        ),
      )
      const read = async (agent: Agent): Promise<string[]> => {
        const seen: string[] = []
        for (let index = 2n; index <= 7n; index++) {
          const message = await agent.next('deliverMessage')
          assert.equal(message.index, index)
          const own = Buffer.from(message.sender).equals(agent.id)
          assert.equal(Buffer.from(message.ciphertext).toString(), own ? '' : `say ${message.counter}`)
          seen.push(`${Buffer.from(message.sender).toString('hex')} ${message.counter}`)
        }
        return seen
      }
      const order = await read(owner)
      assert.deepEqual(await read(bob), order)
      assert.deepEqual(await read(carol), order)
    })

    test('an offline member catches up from its last acknowledgement', async () => {
      const { channel, owner, members } = await stage.cast(1)
      const [bob] = members as [Agent]
      await owner.send(channel, 1n, 1n)
      const first = await bob.next('deliverMessage')
      await bob.request('ack', { positions: [{ channelId: channel, index: first.index }] })
      bob.close()
      await bob.ended
      for (let counter = 2n; counter <= 40n; counter++) await owner.send(channel, 1n, counter)
      const back = await stage.connect('member-0', bob.key)
      const { channels } = await back.request('resume', { channelIds: [channel] })
      assert.equal(channels[0]?.cursor?.index, first.index)
      assert.equal(channels[0]?.lastIndex, 41n)
      assert.equal(channels[0]?.head, 1n)
      for (let index = 3n; index <= 41n; index++) assert.equal((await back.next('deliverMessage')).index, index)
    })

    test('nothing is missing after a restart of the relay', async () => {
      const { channel, owner, members } = await stage.cast(1)
      const [bob] = members as [Agent]
      const sent = randomBytes(2000)
      await owner.send(channel, 1n, 1n, sent)
      await stage.relay.restart()
      await bob.ended
      // By QUIC the last word may be lost with the connection, which tells the same.
      const closing = bob.pushes.find(({ body }) => body.case === 'sessionClosing')?.body
      if (closing?.case === 'sessionClosing') assert.equal(closing.value.error?.code, 'unavailable')
      else assert.notEqual(way, 'grpc', 'TCP loses no last word')
      const back = await stage.connect('member-0', bob.key)
      await back.request('resume', { channelIds: [channel] })
      const message = await back.next('deliverMessage')
      assert.deepEqual(Buffer.from(message.ciphertext), sent)
      const again = await stage.connect('owner', owner.key)
      const { channels } = await again.request('resume', { channelIds: [channel] })
      assert.equal(channels[0]?.lastCounter, 1n)
      assert.equal((await again.send(channel, 1n, 2n)).index, 3n)
    })

    test('the hash chain follows from the delivered entries', async () => {
      const { channel, owner, members, startHash } = await stage.cast(1)
      const [bob] = members as [Agent]
      await owner.send(channel, 1n, 1n, randomBytes(500))
      await owner.commit(channel, 1n)
      const message = await bob.next('deliverMessage')
      const commit = await bob.next('deliverCommit')
      assert.ok(commit.declaration)
      await bob.request('ack', { positions: [{ channelId: channel, index: commit.index }] })
      const { channels } = await bob.request('resume', { channelIds: [channel] })
      const sender = owner.id
      const afterMessage = chainNext(sha256, startHash, {
        kind: 'message',
        sender,
        messageId: message.messageId,
        bodyHash: sha256(message.ciphertext),
      })
      const afterCommit = chainNext(sha256, afterMessage, {
        kind: 'commit',
        sender,
        messageId: commit.messageId,
        bodyHash: sha256(commitBody(commit.commit, commit.declaration)),
      })
      assert.deepEqual(Buffer.from(channels[0]?.cursor?.hash ?? []), Buffer.from(afterCommit))
      assert.equal(channels[0]?.cursor?.slot, 2n)
    })

    test('the same id twice is stored and charged once, even after the entry was deleted', async () => {
      const { channel, owner, members } = await stage.cast(1)
      const [bob] = members as [Agent]
      const messageId = randomBytes(16)
      const first = await bob.send(channel, 1n, 1n, randomBytes(10), messageId)
      const again = await bob.send(channel, 1n, 1n, randomBytes(10), messageId)
      assert.equal(again.index, first.index)
      for (const agent of [owner, bob]) {
        await agent.next('deliverMessage')
        await agent.request('ack', { positions: [{ channelId: channel, index: first.index }] })
      }
      // What all have acknowledged is deleted at the next sweep; another channel's message shows that one has passed.
      const late = await bob.send(channel, 1n, 1n, randomBytes(10), messageId)
      assert.equal(late.index, first.index)
      const next = await bob.send(channel, 1n, 2n)
      assert.equal(next.index, first.index + 1n)
      assert.equal((await owner.next('deliverMessage')).index, next.index)
    })

    test('a counter that skips or repeats, a stale slot and a non-member are refused', async () => {
      const { channel, owner, members } = await stage.cast(1)
      const [bob] = members as [Agent]
      await bob.send(channel, 1n, 1n)
      for (const counter of [1n, 3n]) {
        await assert.rejects(bob.send(channel, 1n, counter), (error) => {
          assert.ok(error instanceof Refused)
          assert.equal(error.code, 'out_of_order')
          assert.equal(error.refusal.lastCounter, 1n)
          return true
        })
      }
      await owner.commit(channel, 1n)
      await assert.rejects(bob.send(channel, 1n, 2n), (error) => {
        assert.ok(error instanceof Refused)
        assert.equal(error.code, 'epoch_mismatch')
        assert.equal(error.refusal.head, 2n)
        return true
      })
      const stranger = await stage.connect('stranger')
      await assert.rejects(stranger.send(channel, 2n, 1n), code('not_found'))
      assert.equal((await bob.send(channel, 2n, 2n)).index, 4n)
    })

    test('a payload of 256 KiB arrives; a ciphertext over 272 KiB is refused', async () => {
      const { channel, owner, members } = await stage.cast(1)
      const [bob] = members as [Agent]
      const large = randomBytes(MAX_CIPHERTEXT_BYTES)
      await owner.send(channel, 1n, 1n, large)
      assert.deepEqual(Buffer.from((await bob.next('deliverMessage')).ciphertext), large)
      await assert.rejects(owner.send(channel, 1n, 2n, randomBytes(MAX_CIPHERTEXT_BYTES + 1)), code('too_large'))
    })

    test('an acknowledgement beyond the end of the log counts up to the end', async () => {
      const { channel, owner, members } = await stage.cast(1)
      const [bob] = members as [Agent]
      await owner.send(channel, 1n, 1n)
      const { index } = await bob.next('deliverMessage')
      const past = { positions: [{ channelId: channel, index: index + 1n }] }
      await bob.request('ack', past)
      bob.ack(channel, index + 1n)
      const { channels } = await bob.request('resume', { channelIds: [channel] })
      assert.equal(channels[0]?.cursor?.index, index)
    })
  })
}
