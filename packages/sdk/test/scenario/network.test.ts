import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { Channel } from '../../src/public/channel.ts'
import type { Envelope } from '../../src/public/envelope.ts'
import { Cutter } from '../support/cutter.ts'
import { agreed, takeEnvelopes } from '../support/reading.ts'
import { sendApart } from '../support/send-apart.ts'
import { code, event, take, text, WAYS, TestSystem } from '../support/test-system.ts'

const numbered = (word: string, count: number): string[] => Array.from({ length: count }, (_, n) => `${word} ${n}`)

const payloads = (envelopes: readonly Envelope[]): string[] => envelopes.map(({ payload }) => text(payload))

/** A reader that tells how far it is. */
class Reader {
  readonly received: Envelope[] = []
  readonly done: Promise<void>
  #waiting: { readonly count: number; readonly reached: PromiseWithResolvers<void> }[] = []

  constructor(channel: Channel, count: number) {
    this.done = this.#read(channel, count)
  }

  /** Fulfilled once there are so many. */
  async has(count: number): Promise<void> {
    if (this.received.length >= count) return
    const reached = Promise.withResolvers<void>()
    this.#waiting.push({ count, reached })
    await reached.promise
  }

  async #read(channel: Channel, count: number): Promise<void> {
    for await (const envelope of channel.envelopes()) {
      this.received.push(envelope)
      for (const { count: wanted, reached } of this.#waiting) if (this.received.length >= wanted) reached.resolve()
      if (this.received.length === count) return
    }
  }
}

/** Sends many at once and counts what the relay has answered. */
class Burst {
  answered = 0
  readonly #sends: Promise<void>[]

  constructor(channel: Channel, texts: readonly string[]) {
    this.#sends = sendApart(channel, texts).map(async (sent) => {
      await sent
      this.answered++
    })
    // Whoever waits for one of them is told.
    for (const send of this.#sends) send.catch(() => {})
  }

  async has(count: number): Promise<void> {
    await this.#sends[count - 1]
  }

  async done(): Promise<void> {
    await Promise.all(this.#sends)
  }
}

for (const way of WAYS) {
  test(`networks, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)

    await t.test('a connection that is cut loses, repeats and reorders nothing', async () => {
      const count = 400
      const [near, far] = [new Cutter(), new Cutter()]
      const alice = await world.agent('alice', { transport: near.wrap })
      const bob = await world.agent('bob', { transport: far.wrap })
      const carol = await world.agent('carol')
      const [a, b, c] = await world.channel(alice, [bob, carol], 'acme/network/cut')
      const readers = { alice: new Reader(a!, count), bob: new Reader(b!, count), carol: new Reader(c!, 2 * count) }
      const bursts = { alice: new Burst(a!, numbered('a', count)), bob: new Burst(b!, numbered('b', count)) }

      // The relay takes messages whose answers do not arrive.
      await bursts.alice.has(50)
      const fromAlice = (): number =>
        readers.carol.received.filter((one) => one.sender.agentId === alice.agentId).length
      void near.deafen()
      while (fromAlice() <= bursts.alice.answered) await readers.carol.has(readers.carol.received.length + 1)
      near.cut()
      // Messages leave that do not arrive.
      await bursts.alice.has(150)
      await near.mute()
      near.cut()
      // The receiver's own connection, in the middle of deliveries.
      await readers.bob.has(100)
      await far.deafen()
      far.cut()
      await bursts.bob.has(200)
      far.cut()
      near.cut()
      await Promise.all([bursts.alice.done(), bursts.bob.done()])
      await Promise.all([readers.alice.done, readers.bob.done, readers.carol.done])
      assert.deepEqual(payloads(readers.bob.received), numbered('a', count))
      assert.deepEqual(payloads(readers.alice.received), numbered('b', count))
      const all = readers.carol.received
      const indexes = new Map(all.map(({ index, messageId }) => [messageId, index]))
      assert.equal(indexes.size, 2 * count)
      assert.deepEqual(payloads(all.filter(({ sender }) => sender.agentId === alice.agentId)), numbered('a', count))
      for (const { messageId, index } of [...readers.alice.received, ...readers.bob.received]) {
        assert.equal(indexes.get(messageId), index)
      }
      await agreed(a!, b!, c!)
    })

    await t.test('a relay that restarts in a burst loses, repeats and reorders nothing', async () => {
      const count = 300
      const [dave, emma] = await Promise.all(['dave', 'emma'].map((who) => world.agent(who)))
      const [d, e] = await world.channel(dave!, [emma!], 'acme/network/restart')
      const [toDave, toEmma] = [new Reader(d!, count), new Reader(e!, count)]
      const bursts = [new Burst(d!, numbered('d', count)), new Burst(e!, numbered('e', count))]
      await Promise.all(bursts.map((burst) => burst.has(60)))
      const back = [dave!, emma!].map((agent) => event(agent, 'connected'))
      await world.relay.restart()
      await Promise.all(back)
      await d!.rotate()
      await Promise.all([...bursts.map((burst) => burst.done()), toDave.done, toEmma.done])
      assert.deepEqual(payloads(toEmma.received), numbered('d', count))
      assert.deepEqual(payloads(toDave.received), numbered('e', count))
      await agreed(d!, e!)
    })

    await t.test('an agent that was offline catches up through messages and commits', async () => {
      const name = 'acme/network/away'
      const [fred, hans] = await Promise.all(['fred', 'hans'].map((who) => world.agent(who)))
      let gina = await world.agent('gina')
      const [f] = await world.channel(fred!, [gina], name)
      await gina.close()
      const texts = numbered('away', 1000)
      const send = async (from: number, to: number): Promise<void> => {
        await Promise.all(texts.slice(from, to).map((one) => f!.send(one)))
      }
      await send(0, 250)
      const h = await hans!.joinChannel(name, await f!.addMember(await hans!.generateKeyPackage()))
      await send(250, 500)
      assert.deepEqual(await take(h, 250), texts.slice(250, 500))
      await f!.rotate()
      await send(500, 750)
      await f!.removeMember(hans!.agentId)
      await send(750, 1000)
      gina = await world.agent('gina')
      const g = gina.channel(name)
      const received = await takeEnvelopes(g, 1000)
      assert.deepEqual(payloads(received), texts)
      assert.equal(new Set(received.map(({ epoch }) => epoch)).size, 4)
      assert.deepEqual(
        g
          .members()
          .map(({ identity }) => text(identity))
          .toSorted(),
        ['fred', 'gina'],
      )
      await g.send('back')
      assert.deepEqual(await take(f!, 1), ['back'])
      await agreed(g, f!)
    })

    await t.test('without quota a message and those in flight are refused, and later ones succeed', async () => {
      const { api } = world.relay
      const account = randomUUID()
      // The relay asks anew each time instead of remembering the no.
      const lease = api.lease.bind(api)
      api.lease = async (...args) => ({ ...(await lease(...args)), period_end: new Date(0).toISOString() })
      const [ines, jack] = [await world.agent('ines', { account }), await world.agent('jack')]
      const [i, j] = await world.channel(ines, [jack], 'acme/network/quota')
      api.left.set(`${account}/live`, 5)
      const sends = sendApart(i!, numbered('paid', 20))
      const outcomes = await Promise.allSettled(sends)
      api.left.set(`${account}/live`, 1000)
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        Array.from({ length: 20 }, (_, n) => (n < 5 ? 'fulfilled' : 'rejected')),
      )
      for (const send of sends.slice(5)) await assert.rejects(send, code('quota_exceeded'))
      await i!.send('and later')
      assert.deepEqual(await take(j!, 6), [...numbered('paid', 5), 'and later'])
      await j!.send('not mine to pay')
      assert.deepEqual(await take(i!, 1), ['not mine to pay'])
      await agreed(i!, j!)
      api.lease = lease
    })
  })
}
