/** kill -9 of the relay in the middle of bursts and commits: agents go on by themselves, and nothing is lost or doubled. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { randomNumbers, SEED } from '@static/testkit/random'
import type { FailAt } from '@static/testkit/crash/store-steps'
import { type RelayChild, RelayHome } from '@static/testkit/relay/process'
import { IS_WHOLE } from '@static/testkit/whole'
import type { Channel } from '../../src/public/channel.ts'
import type { StaticClient } from '../../src/public/client.ts'
import { parseAgentId } from '../../src/public/fingerprint.ts'
import { take, text } from '../support/test-system.ts'
import { until } from './scene.ts'
import { startAgent } from './start.ts'

/** The steps of a transaction of the relay. */
const STEPS = ['before_begin', 'after_insert_before_commit', 'after_commit_before_answer'] as const
/** More with STATIC_CRASH=all. */
const ROUNDS = process.env['STATIC_CRASH'] === 'all' ? 20 : IS_WHOLE ? 2 : 1
/** Where the relay dies while a channel changes hands. Its agents also acknowledge what they have read. */
const POINTS: readonly FailAt[] =
  process.env['STATIC_CRASH'] === 'all'
    ? STEPS.flatMap((point) => Array.from({ length: 3 }, (_, at) => ({ point, count: at + 1 })))
    : [{ point: 'after_commit_before_answer', count: 2 }]
const BURST = 40
const ROTATIONS = 4
const NAME = 'acme/crash/relay'
const SETTINGS = {
  session: { pingMs: 1000, pongMs: 1000 },
  rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 },
}

/** A member, what it was given, and where that is in the log. */
class Member {
  readonly name: string
  readonly client: StaticClient
  readonly channel: Channel
  readonly received: { readonly text: string; readonly index: number; readonly redelivered: boolean }[] = []

  constructor(name: string, client: StaticClient, channel: Channel) {
    this.name = name
    this.client = client
    this.channel = channel
    // It ends without an error, with the client.
    void this.#read()
  }

  async #read(): Promise<void> {
    for await (const { payload, index, redelivered } of this.channel.envelopes()) {
      this.received.push({ text: text(payload), index, redelivered })
    }
  }
}

/** A relay that can be killed, and agents on it. */
class Stage {
  readonly home: RelayHome
  readonly clients: StaticClient[] = []
  /** Why sessions ended. */
  readonly losses: string[] = []
  relay: RelayChild

  private constructor(home: RelayHome, relay: RelayChild) {
    this.home = home
    this.relay = relay
  }

  static async make(t: TestContext): Promise<Stage> {
    const home = await RelayHome.make()
    const stage = new Stage(home, await home.start(SETTINGS))
    t.after(() => stage.#close())
    return stage
  }

  async start(identity: string, way: 'quic' | 'grpc'): Promise<StaticClient> {
    const { home, relay } = this
    const client = await startAgent({
      directory: join(home.directory, 'agents', identity),
      identity,
      endpoint: way === 'quic' ? `quic://localhost:${relay.ports.quic}` : `https://localhost:${relay.ports.grpc}`,
      ca: home.ca,
      jwt: home.api.token('acme'),
      impatient: true,
    })
    this.clients.push(client)
    void this.#noteLosses(client)
    return client
  }

  /** Starts the relay again after it was killed, perhaps to die once more. */
  async restart(failAt?: FailAt): Promise<void> {
    assert.equal(await this.relay.exited, 'SIGKILL', this.relay.errors())
    try {
      this.relay = await this.home.start(SETTINGS, failAt)
    } catch (error) {
      // It has died before it was ready.
      if (!failAt) throw error
      this.relay = await this.home.start(SETTINGS)
    }
  }

  /** No session ended because an agent did what the relay does not allow. */
  expectNoRefusal(): void {
    assert.deepEqual(
      this.losses.filter((reason) => reason.includes('Refused')),
      [],
    )
  }

  async #noteLosses(client: StaticClient): Promise<void> {
    for await (const event of client.events()) if (event.type === 'disconnected') this.losses.push(event.error.message)
  }

  async #close(): Promise<void> {
    for (const client of this.clients) await client.close()
    this.relay.kill()
    await this.relay.exited
    await this.home.remove()
  }
}

test(`the relay is killed in ${ROUNDS} rounds, seed ${SEED}`, { timeout: 3_600_000 }, async (t) => {
  const random = randomNumbers(SEED)
  const stage = await Stage.make(t)
  const alice = await stage.start('alice', 'grpc')
  const bob = await stage.start('bob', 'quic')
  const carol = await stage.start('carol', 'grpc')
  const own = await alice.createChannel(NAME)
  const welcomes = await own.addMembers([await bob.generateKeyPackage(), await carol.generateKeyPackage()])
  const members = [
    new Member('alice', alice, own),
    new Member('bob', bob, await bob.joinChannel(NAME, welcomes[0]!)),
    new Member('carol', carol, await carol.joinChannel(NAME, welcomes[1]!)),
  ]

  for (let round = 0; round < ROUNDS; round++) {
    let confirmed = 0
    const killAt = 1 + Math.floor(random() * BURST * members.length * 0.8)
    const count = (): void => {
      if (++confirmed === killAt) stage.relay.kill()
    }
    const work = members.flatMap(({ name, channel }) => {
      const rotate = async (): Promise<void> => {
        for (let n = 0; n < ROTATIONS; n++) await channel.rotate()
      }
      const texts = Array.from({ length: BURST }, (_, n) => `${name} ${round * BURST + n}`)
      return [...texts.map((words) => channel.send(words).then(count)), rotate()]
    })
    await stage.relay.exited
    t.diagnostic(`round ${round}: killed after ${killAt} of ${BURST * members.length} answers`)
    await stage.restart()
    await Promise.all(work)
  }

  const total = ROUNDS * BURST
  for (const { name, received } of members) {
    await until(
      () => received.length >= 2 * total,
      () => `${name} got ${received.length} of ${2 * total} messages`,
    )
  }
  const words = (): Set<string> => new Set(members.map(({ channel }) => channel.verify()))
  await until(
    () => words().size === 1,
    () => 'They have seen different logs.',
  )
  const places = new Map<string, number>()
  for (const member of members) {
    const others = members.filter((other) => other !== member)
    for (const { name } of others) {
      const texts = member.received.map(({ text }) => text).filter((words) => words.startsWith(name))
      assert.deepEqual(
        texts,
        Array.from({ length: total }, (_, n) => `${name} ${n}`),
        `${name} to ${member.name}`,
      )
    }
    let last = 0
    for (const { text, index, redelivered } of member.received) {
      // The payloads of a pack share an index; their order is checked above.
      assert.ok(index >= last, 'The order is not that of the log.')
      assert.equal(places.get(text) ?? index, index, 'Two have seen it at different places.')
      assert.equal(redelivered, false, `${text} was marked, and ${member.name} was never restarted`)
      places.set(text, index)
      last = index
    }
    assert.equal(member.channel.members().length, members.length)
  }
  stage.expectNoRefusal()
  t.diagnostic(
    `promise T1: agents with a relay, seed ${SEED}: ${3 * total} messages over ${ROUNDS} kills, 0 lost, 0 doubled`,
  )
})

test('a relay that has forgotten how far an agent has read delivers again, and both continue', async (t) => {
  const stage = await Stage.make(t)
  const alice = await stage.start('alice', 'grpc')
  const joiner = await stage.start('bob', 'grpc')
  const own = await alice.createChannel(NAME)
  const welcome = await own.addMember(await joiner.generateKeyPackage())
  await joiner.joinChannel(NAME, welcome)
  await joiner.close()
  // More than what is under way at once, so that bob speaks before all of it has come again.
  const payload = Buffer.alloc(20_000, 'x')
  await Promise.all(Array.from({ length: 60 }, () => own.send(payload)))
  const bob = await stage.start('bob', 'grpc')
  const reader = new Member('bob', bob, bob.channel(NAME))
  await until(
    () => reader.received.length === 60,
    () => `bob has got ${reader.received.length}`,
  )
  stage.relay.kill()
  await stage.relay.exited
  const sent = [reader.channel.send('while it is dead'), own.send('to bob')]
  await stage.restart()
  await Promise.all(sent)
  assert.deepEqual(await take(own, 1), ['while it is dead'])
  await until(
    () => reader.received.length === 61,
    () => `bob has got ${reader.received.length}`,
  )
  assert.equal(reader.received.at(-1)?.text, 'to bob')
  await until(
    () => own.verify() === reader.channel.verify(),
    () => 'They have seen different logs.',
  )
  stage.expectNoRefusal()
})

test('the relay is killed at each step of a change of hands, and one owner is left', async (t) => {
  const stage = await Stage.make(t)
  const alice = await stage.start('alice', 'grpc')
  const bob = await stage.start('bob', 'quic')
  const own = await alice.createChannel(NAME)
  const joined = await bob.joinChannel(NAME, await own.addMember(await bob.generateKeyPackage()))
  let [owner, standby] = [new Member('alice', alice, own), new Member('bob', bob, joined)]
  for (const { channel } of [owner, standby]) await channel.send('here')
  let killed = 0
  for (const point of POINTS) {
    stage.relay.kill()
    await stage.restart(point)
    const [from, to] = [owner, standby]
    const handed = (async () => {
      await from.channel.transfer(to.client.agentId)
      await until(
        () => to.channel.standby?.offered === true,
        () => `${to.name} was not offered the channel.`,
      )
      await to.channel.takeOver()
      return false
    })()
    const isDead = await Promise.race([handed, stage.relay.exited.then(() => true)])
    if (isDead) {
      killed++
      await stage.restart()
    }
    await handed
    ;[owner, standby] = [to, from]
    await until(
      () => [from, to].every(({ channel }) => parseAgentId(channel.owner) === to.client.agentId && !channel.standby),
      () => `${JSON.stringify(point)}: the owner is ${from.channel.owner} or ${to.channel.owner}`,
    )
    for (const { name, channel } of [from, to]) await channel.send(`${name} after ${point.point} ${point.count}`)
    await until(
      () => from.channel.verify() === to.channel.verify(),
      () => 'They have seen different logs.',
    )
  }
  for (const { received } of [owner, standby]) {
    await until(
      () => received.length === POINTS.length + 1,
      () => `${received.length} of ${POINTS.length + 1} messages`,
    )
  }
  assert.ok(killed > 0)
  // The relay agrees: it takes this from the owner alone.
  await owner.channel.setStandby(standby.client.agentId)
  stage.expectNoRefusal()
  t.diagnostic(`${killed} kills in ${POINTS.length} changes of hands`)
})
