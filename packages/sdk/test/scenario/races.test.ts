import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Channel } from '../../src/public/channel.ts'
import type { StaticClient } from '../../src/public/client.ts'
import type { AgentStore } from '../../src/ports/index.ts'
import { NAME, take, takeEnvelope, text, waysFor, TestSystem } from '../support/test-system.ts'
import { randomNumbers, SEED } from '@static/testkit/random'
import { IS_WHOLE } from '@static/testkit/whole'

/** Everybody commits as often as it likes. */
const SETTINGS = {
  session: { pingMs: 1000, pongMs: 1000 },
  rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 },
}
/** A round takes most of a second: losers wait as the relay tells them. `npm run proof -- races` goes fifty. */
const ROUNDS = Number(process.env['STATIC_ROUNDS'] ?? (IS_WHOLE ? 4 : 2))

for (const way of waysFor('quic')) {
  test(`eight agents commit at the same time, round after round, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way, { settings: SETTINGS })
    const [owner, ...others] = await Promise.all(Array.from({ length: 8 }, (_, n) => world.agent(`agent ${n}`)))
    const channels = await world.channel(owner!, others)
    for (let round = 0; round < ROUNDS; round++) {
      await Promise.all(channels.flatMap((channel) => [channel.rotate(), channel.catchUp()]))
    }
    await agree(channels)
    const said = channels.map((_, n) => `from ${n}`)
    await Promise.all(channels.map((channel, n) => channel.send(said[n]!)))
    for (const [n, channel] of channels.entries()) {
      assert.deepEqual((await take(channel, 7)).sort(), said.toSpliced(n, 1))
    }
    await owner!.channel(NAME).send('epochs')
    // Owner, founder gone, seven added, their re-key: four. Then every commit of every round.
    assert.equal((await takeEnvelope(channels[1]!)).epoch, 4 + 8 * ROUNDS)
    await agree(channels)
    t.diagnostic(
      `promise T5: ${way}: ${8 * ROUNDS} commits of eight agents at once, one in each slot, one order for all`,
    )
  })

  test(`members join, are removed, leave and commit at random while all send, ${way}`, async (t) => {
    t.diagnostic(`seed ${SEED}`)
    const world = await TestSystem.start(t, way, { settings: SETTINGS })
    const crowd = new Crowd(world, randomNumbers(SEED))
    await crowd.start()
    for (let step = 0; step < 24; step++) await crowd.step(step)
    await crowd.finish()
  })

  test(`the first add is complete with its re-key, even if the program was killed between the two, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    let killed = false
    const owner = await world.agent('owner', {
      store: (store): AgentStore => ({
        load: () => store.load(),
        inbox: (...page) => store.inbox(...page),
        poison: (id) => store.poison(id),
        onFailure: (listener) => store.onFailure(listener),
        requests: (id, after, limit) => store.requests(id, after, limit),
        answers: (id) => store.answers(id),
        fileDigests: (id, index) => store.fileDigests(id, index),
        uploadParts: (id, fileId) => store.uploadParts(id, fileId),
        kept: (id, before, limit) => store.kept(id, before, limit),
        keptSizes: (id, before, limit) => store.keptSizes(id, before, limit),
        checkpoint: () => store.checkpoint(),
        close: () => store.close(),
        write: (changes) => {
          if (!killed) store.write(changes)
          killed ||= changes.some((change) => change.type === 'putChannel' && change.record.rekeyDue)
          // It is on disk that the re-key is due, and nothing more leaves the program.
          if (killed) throw new Error('killed')
        },
      }),
    })
    const bob = await world.agent('bob')
    const a = await owner.createChannel(NAME)
    const keyPackage = await bob.generateKeyPackage()
    await assert.rejects(a.addMember(keyPackage), { code: 'internal_error' })
    assert.equal(killed, true)
    await owner.close()
    const again = await world.agent('owner')
    const channel = again.channel(NAME)
    await channel.send('after the re-key')
    for await (const offer of bob.joins()) {
      const joined = await offer.accept()
      const { payload, epoch } = await takeEnvelope(joined)
      assert.equal(text(payload), 'after the re-key')
      // Owner, founder gone, bob added, re-key: and once more, because nobody knew whether the relay had it.
      assert.ok(epoch === 4 || epoch === 5, `${epoch}`)
      await agree([channel, joined])
      break
    }
  })
}

/** Agents that come and go; only what is said between two that are in the channel all the while must arrive. */
class Crowd {
  readonly #world: TestSystem
  readonly #chance: () => number
  readonly #staying: { client: StaticClient; channel: Channel; said: string[] }[] = []
  readonly #guests: { client: StaticClient; channel: Channel }[] = []
  readonly #gone: StaticClient[] = []
  #sends: Promise<unknown>[] = []
  #count = 0

  constructor(world: TestSystem, chance: () => number) {
    this.#world = world
    this.#chance = chance
  }

  async start(): Promise<void> {
    const names = ['owner', 'ann', 'bob']
    // Who has left is removed soon: in life that takes up to five seconds.
    const clients = await Promise.all(names.map((name) => this.#agent(name)))
    const channels = await this.#world.channel(clients[0]!, clients.slice(1))
    for (const [at, client] of clients.entries()) this.#staying.push({ client, channel: channels[at]!, said: [] })
  }

  async step(step: number): Promise<void> {
    for (const { channel, said, client } of this.#staying) {
      const words = `${client.agentId} ${step}`
      said.push(words)
      this.#sends.push(channel.send(words))
    }
    for (const { channel } of this.#guests) {
      // A guest may be gone before it is sent.
      this.#sends.push(channel.send('guest').catch(() => {}))
    }
    const [owner, ann, bob] = this.#staying
    const guest = this.#guests[Math.floor(this.#chance() * this.#guests.length)]
    const what = this.#chance()
    if (!guest || what < 0.35) await this.#add(what < 0.2 ? owner!.channel : ann!.channel)
    else if (what < 0.55) await this.#remove(guest, () => owner!.channel.removeMember(guest.client.agentId))
    else if (what < 0.7) await this.#remove(guest, () => guest.channel.leave())
    else await Promise.all([owner!, ann!, bob!, guest].map(({ channel }) => channel.rotate()))
  }

  async finish(): Promise<void> {
    await Promise.all(this.#sends)
    const channels = [...this.#staying, ...this.#guests].map(({ channel }) => channel)
    const expected = [...this.#staying, ...this.#guests].map(({ client }) => client.agentId).sort()
    await until(() => channels.every((channel) => channel.members().length === expected.length))
    for (const channel of channels) {
      assert.deepEqual(
        channel
          .members()
          .map(({ agentId }) => agentId)
          .sort(),
        expected,
      )
    }
    await agree(channels)
    for (const { channel } of this.#staying) {
      await channel.send('end')
    }
    for (const { client, channel } of this.#staying) {
      const taken: string[] = []
      let ends = 0
      for await (const payload of channel.messages()) {
        taken.push(text(payload))
        if (text(payload) === 'end' && ++ends === 2) break
      }
      for (const other of this.#staying) {
        if (other.client === client) continue
        assert.deepEqual(
          taken.filter((words) => words.startsWith(other.client.agentId)),
          other.said,
        )
      }
    }
  }

  #agent(name: string): Promise<StaticClient> {
    return this.#world.agent(name, { chance: () => this.#chance() / 50 })
  }

  async #add(adder: Channel): Promise<void> {
    // One that was here before comes back with the same key, or somebody new.
    const client = this.#gone.pop() ?? (await this.#agent(`guest ${this.#count++}`))
    // The adder may not have heard yet that it has left.
    await adder.catchUp()
    const welcome = await adder.addMember(await client.generateKeyPackage())
    this.#guests.push({ client, channel: await client.joinChannel(NAME, welcome) })
  }

  async #remove(guest: { client: StaticClient; channel: Channel }, how: () => Promise<void>): Promise<void> {
    this.#guests.splice(this.#guests.indexOf(guest), 1)
    await how()
    // Over for it, whichever way; what it had not read is left behind.
    await until(() => guest.client.channels().length === 0 || isOver(guest.channel))
    await guest.channel.leave().catch(() => {})
    this.#gone.push(guest.client)
  }
}

function isOver(channel: Channel): boolean {
  try {
    channel.members()
    return false
  } catch {
    return true
  }
}

/** At rest all members have the same words when they have caught up; one may still remove who has left. */
async function agree(channels: readonly Channel[]): Promise<void> {
  const late = performance.now() + 120_000
  while (performance.now() < late) {
    await Promise.all(channels.map((channel) => channel.catchUp()))
    if (new Set(channels.map((channel) => channel.verify())).size === 1) return
  }
  assert.fail('Members have caught up and differ.')
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve))
}
