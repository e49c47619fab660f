import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { agreed, takeEnvelopes } from '../support/reading.ts'
import { code, take, takeEnvelope, text, waysFor, TestSystem } from '../support/test-system.ts'

const MAX_PAYLOAD = 262_144

const numbered = (word: string, count: number, from = 0): string[] =>
  Array.from({ length: count }, (_, n) => `${word} ${from + n}`)

/** Bytes as their numbers, whatever the class of the array. */
function asNumbers(this: Record<string, unknown>, key: string, value: unknown): unknown {
  const held = this[key]
  return held instanceof Uint8Array ? [...held] : value
}

for (const way of waysFor('quic')) {
  test(`channels, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)

    await t.test('two channels of one client do not mix', async () => {
      const [alice, bob] = await Promise.all(['alice', 'bob'].map((who) => world.agent(who)))
      const [a1, b1] = await world.channel(alice!, [bob!], 'acme/channels/first')
      const [a2, b2] = await world.channel(alice!, [bob!], 'acme/channels/second')
      const sent = [a1!.send('first 0'), a2!.send('second 0'), a1!.send('first 1'), a2!.send('second 1')]
      await Promise.all(sent)
      assert.deepEqual(await take(b2!, 2), ['second 0', 'second 1'])
      assert.deepEqual(await take(b1!, 2), ['first 0', 'first 1'])
      await b1!.leave()
      await a2!.send('second 2')
      assert.deepEqual(await take(b2!, 1), ['second 2'])
      assert.deepEqual(bob!.channels(), [b2])
    })

    await t.test('all send at once, and all see one order', async () => {
      const [count, each] = [4, 200]
      const agents = await Promise.all(['carl', 'dora', 'emil', 'fine'].map((who) => world.agent(who)))
      const channels = await world.channel(agents[0]!, agents.slice(1), 'acme/channels/order')
      const received = channels.map((channel) => takeEnvelopes(channel, (count - 1) * each))
      const sent = channels.flatMap((channel, at) => numbered(`${at}:`, each).map((payload) => channel.send(payload)))
      await Promise.all(sent)
      const seen = await Promise.all(received)
      const order = new Map<string, string>()
      for (const [reader, envelopes] of seen.entries()) {
        for (const [sender, { agentId }] of agents.entries()) {
          const from = envelopes.filter((envelope) => envelope.sender.agentId === agentId)
          assert.deepEqual(
            from.map(({ payload }) => text(payload)),
            sender === reader ? [] : numbered(`${sender}:`, each),
          )
        }
        const indexes = envelopes.map(({ index }) => index)
        assert.deepEqual(
          indexes,
          indexes.toSorted((one, other) => one - other),
        )
        // The same message at the same place for everybody.
        for (const { index, payload, messageId } of envelopes) {
          const entry = `${index} ${text(payload)}`
          assert.equal(order.get(messageId) ?? entry, entry)
          order.set(messageId, entry)
        }
      }
      assert.equal(order.size, count * each)
      await agreed(...channels)
    })

    await t.test('several iterators share the payloads', async () => {
      const [gwen, hans] = await Promise.all(['gwen', 'hans'].map((who) => world.agent(who)))
      const [g, h] = await world.channel(gwen!, [hans!], 'acme/channels/iterators')
      for (const payload of numbered('one', 4)) await g!.send(payload)
      assert.deepEqual(await take(h!, 1), ['one 0'])
      assert.deepEqual(await take(h!, 2), ['one 1', 'one 2'])
      assert.deepEqual(await take(h!, 1), ['one 3'])
      // Those who wait are served in turn, whether they wait before or after it came.
      const waiting = [h!.messages(), h!.messages(), h!.messages()]
      const nexts = waiting.map((iterator) => iterator.next())
      for (const payload of numbered('two', 3)) await g!.send(payload)
      const values = (await Promise.all(nexts)).map(({ value }) => text(value!))
      assert.deepEqual(values, numbered('two', 3))
      // Asking for the next one settles; nobody waits for it.
      const settling = waiting.map((iterator) => iterator.next())
      for (const iterator of waiting) await iterator.return!()
      await Promise.all(settling)
      const taken = Promise.all([take(h!, 20), take(h!, 30), take(h!, 50)])
      await Promise.all(numbered('three', 100).map((payload) => g!.send(payload)))
      const shares = await taken
      for (const share of shares) assert.deepEqual(share, share.toSorted(byNumber))
      assert.deepEqual(shares.flat().toSorted(byNumber), numbered('three', 100))
    })

    await t.test('settled payloads are not delivered again, unsettled ones are', async () => {
      const name = 'acme/channels/settling'
      const ida = await world.agent('ida')
      let jim = await world.agent('jim')
      const [i, j] = await world.channel(ida, [jim], name)
      // More than is kept in memory.
      await Promise.all(numbered('payload', 700).map((payload) => i!.send(payload)))
      const unsettled = await takeEnvelope(j!)
      assert.equal(unsettled.redelivered, false)
      assert.deepEqual(await take(j!, 299), numbered('payload', 299, 1))
      const reader = j!.envelopes()
      const given = (await reader.next()).value!
      assert.equal(text(given.payload), 'payload 300')
      assert.equal(given.redelivered, false)
      await jim.close()
      jim = await world.agent('jim')
      const again = await takeEnvelope(jim.channel(name))
      assert.equal(again.messageId, given.messageId)
      assert.equal(again.redelivered, true)
      // Bytes are compared by what is in them, not by the class of the array.
      const facts = (envelope: object): string => JSON.stringify(Object.entries(envelope).slice(0, -1), asNumbers)
      assert.equal(facts(again), facts(given))
      // Asking for the next one settles, too.
      const second = jim.channel(name).messages()
      assert.equal(text((await second.next()).value!), 'payload 301')
      assert.equal(text((await second.next()).value!), 'payload 302')
      await jim.close()
      jim = await world.agent('jim')
      assert.deepEqual(await take(jim.channel(name), 398), numbered('payload', 398, 302))
      await i!.send('news')
      const news = await takeEnvelope(jim.channel(name))
      assert.equal(text(news.payload), 'news')
      assert.equal(news.redelivered, false)
    })

    await t.test('a closed channel ends its iterators and can be opened again', async () => {
      const name = 'acme/channels/closing'
      const [kim, leo] = await Promise.all(['kim', 'leo'].map((who) => world.agent(who)))
      const [k, l] = await world.channel(kim!, [leo!], name)
      const waiting = [l!.messages().next(), l!.envelopes().next()]
      const reader = l!.messages()
      const last = reader.next()
      await k!.send('to the first')
      assert.equal(text((await waiting[0]!).value as Uint8Array), 'to the first')
      l!.close()
      assert.deepEqual(await waiting[1], { done: true, value: undefined })
      assert.deepEqual(await last, { done: true, value: undefined })
      assert.deepEqual(await reader.next(), { done: true, value: undefined })
      await k!.send('while closed')
      const again = leo!.channel(name)
      assert.deepEqual(await take(again, 1), ['while closed'])
      await again.send('open')
      assert.deepEqual(await take(k!, 1), ['open'])
    })

    await t.test('a closed client ends quietly and sends nothing more', async () => {
      const [mia, ned] = await Promise.all(['mia', 'ned'].map((who) => world.agent(who)))
      const [m, n] = await world.channel(mia!, [ned!], 'acme/channels/ending')
      const loops = [m!.messages().next(), m!.envelopes().next(), mia!.events().next(), mia!.joins().next()]
      await mia!.close()
      for (const loop of loops) assert.deepEqual(await loop, { done: true, value: undefined })
      assert.deepEqual(await m!.messages().next(), { done: true, value: undefined })
      await assert.rejects(m!.send('too late'), code('closed'))
      await assert.rejects(m!.rotate(), code('closed'))
      await assert.rejects(m!.addMember(ned!.agentId), code('closed'))
      await assert.rejects(m!.leave(), code('closed'))
      await assert.rejects(mia!.createChannel('acme/channels/never'), code('closed'))
      await assert.rejects(mia!.generateKeyPackage(), code('closed'))
      await mia!.close()
      await n!.send('for later')
      const back = await world.agent('mia')
      assert.deepEqual(await take(back.channel('acme/channels/ending'), 1), ['for later'])
    })

    await t.test('payloads of all sizes and kinds', async () => {
      const [olaf, pam] = await Promise.all(['olaf', 'pam'].map((who) => world.agent(who)))
      const [o, p] = await world.channel(olaf!, [pam!], 'acme/channels/payloads')
      const payloads = [
        new Uint8Array(),
        Uint8Array.of(0),
        Uint8Array.of(65, 0, 66, 0, 0),
        new Uint8Array(randomBytes(1000)),
        new Uint8Array(randomBytes(MAX_PAYLOAD)),
        new Uint8Array(MAX_PAYLOAD),
      ]
      await Promise.all(payloads.map((payload) => o!.send(payload)))
      const received = await takeEnvelopes(p!, payloads.length)
      for (const [at, { payload }] of received.entries()) assert.ok(Buffer.from(payload).equals(payloads[at]!), `${at}`)
      await assert.rejects(o!.send(new Uint8Array(MAX_PAYLOAD + 1)), code('too_large'))
      await assert.rejects(o!.send('ä'.repeat(MAX_PAYLOAD / 2 + 1)), code('too_large'))
      const texts = ['', 'Grüße, 世界 🌍', 'nul\0inside', 'ä'.repeat(MAX_PAYLOAD / 2)]
      for (const one of texts) await o!.send(one)
      assert.deepEqual(await take(p!, texts.length), texts)
      // The caller may use its buffer again at once.
      const buffer = Buffer.from('before')
      const sending = o!.send(buffer)
      buffer.fill('x')
      await sending
      assert.deepEqual(await take(p!, 1), ['before'])
    })
  })
}

function byNumber(one: string, other: string): number {
  return Number(one.split(' ')[1]) - Number(other.split(' ')[1])
}
