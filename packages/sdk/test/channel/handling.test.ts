/** `Channel.handle`: what happens to a message whose handler fails, by a clock that the test moves. */
import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { test } from 'node:test'
import { StaticError, toHex } from '@static/protocol'
import { handleMessages, type HandleOptions } from '../../src/channel/receiving/handling.ts'
import type { InboxEntry } from '../../src/channel/receiving/inbox.ts'
import { type Player, Stage } from '../support/stage.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND

/** A program: what its handler was called with, and how it fails. */
class Program {
  readonly calls: string[] = []
  readonly ended: Promise<void>
  fails: (text: string, call: number) => unknown = () => false

  constructor(player: Player, options: HandleOptions = {}) {
    this.ended = handleMessages(player, player.channel, (entry) => this.#handle(entry), options)
    this.ended.catch(() => {})
  }

  async #handle({ payload }: InboxEntry): Promise<void> {
    const text = Buffer.from(payload).toString()
    this.calls.push(text)
    await Promise.resolve()
    const failure = await this.fails(text, this.calls.filter((call) => call === text).length)
    if (failure) throw failure instanceof Error ? failure : new Error(`cannot ${text}`)
  }
}

/** Everything that can happen now has happened. */
async function quiet(stage: Stage): Promise<void> {
  for (let round = 0; round < 5; round++) {
    await stage.settle()
    await setImmediate()
  }
}

async function pass(stage: Stage, milliseconds: number): Promise<void> {
  await stage.advance(milliseconds, milliseconds)
  await quiet(stage)
}

async function begin(): Promise<{
  stage: Stage
  alice: Player
  bob: Player
  say: (...words: string[]) => Promise<void>
}> {
  const stage = await Stage.start(['alice', 'bob'])
  const [alice, bob] = [stage.player('alice'), stage.player('bob')]
  const say = async (...words: string[]): Promise<void> => {
    const sending = Promise.all(words.map((word) => alice.send(word)))
    await quiet(stage)
    await sending
  }
  return { stage, alice, bob, say }
}

const poisonOf = ({ channel }: Player): unknown[] =>
  channel.poison.list().map(({ record, payload }) => [Buffer.from(payload).toString(), record.attempts, record.reason])

/** The texts of the unsettled messages on disk. */
function onDisk({ channel, store }: Player): number {
  return store.inbox(channel.id, 0, 100).length
}

test('a failing handler is retried after 1, 5 and 30 s while later messages wait; success settles the message', async () => {
  const { stage, bob, say } = await begin()
  const program = new Program(bob)
  program.fails = (text, call) => text === 'two' && call < 4
  await say('one', 'two', 'three')
  assert.deepEqual(program.calls, ['one', 'two'])
  for (const [delay, calls] of [
    [SECOND, 2],
    [5 * SECOND, 3],
    [30 * SECOND, 4],
  ] as const) {
    await pass(stage, delay - 1)
    assert.equal(program.calls.filter((text) => text === 'two').length, calls - 1)
    await pass(stage, 1)
    assert.equal(program.calls.filter((text) => text === 'two').length, calls)
  }
  assert.deepEqual(program.calls, ['one', 'two', 'two', 'two', 'two', 'three'])
  assert.equal(onDisk(bob), 0)
  assert.deepEqual(
    bob.told('handler_failed').map(({ attempts, reason, retryInMs }) => [attempts, reason, retryInMs]),
    [
      [1, 'cannot two', SECOND],
      [2, 'cannot two', 5 * SECOND],
      [3, 'cannot two', 30 * SECOND],
    ],
  )
  assert.deepEqual(bob.told('poison'), [])
})

test('after the last attempt a message is put aside, reported, and can be retried or dropped', async () => {
  const { stage, bob, say } = await begin()
  const program = new Program(bob, { attempts: 3 })
  program.fails = (text) => text !== 'good'
  await say('bad', 'worse', 'good')
  await pass(stage, SECOND)
  await pass(stage, 5 * SECOND)
  assert.deepEqual(program.calls, ['bad', 'bad', 'bad', 'worse'])
  await pass(stage, SECOND)
  await pass(stage, 5 * SECOND)
  assert.deepEqual(program.calls.slice(4), ['worse', 'worse', 'good'])
  assert.deepEqual(
    bob.told('poison').map(({ attempts, reason, isPutAside }) => [attempts, reason, isPutAside]),
    [
      [3, 'cannot bad', true],
      [3, 'cannot worse', true],
    ],
  )
  assert.deepEqual(poisonOf(bob), [
    ['bad', 3, 'cannot bad'],
    ['worse', 3, 'cannot worse'],
  ])
  assert.equal(onDisk(bob), 0)
  const [bad, worse] = bob.channel.poison.list().map(({ record }) => toHex(record.messageId))
  program.fails = (text, call) => text === 'bad' && call < 5
  await bob.channel.poison.retry(bad!)
  await quiet(stage)
  assert.deepEqual(program.calls.slice(7), ['bad'])
  await pass(stage, SECOND)
  assert.deepEqual(program.calls.slice(7), ['bad', 'bad'])
  await bob.channel.poison.drop(worse!)
  await assert.rejects(bob.channel.poison.drop(worse!), { code: 'not_found' })
  await assert.rejects(bob.channel.poison.retry(bad!), { code: 'not_found' })
  assert.deepEqual([poisonOf(bob), onDisk(bob)], [[], 0])
})

test('other workers continue while a message fails', async () => {
  const { stage, bob, say } = await begin()
  const program = new Program(bob, { concurrency: 2 })
  program.fails = (text, call) => text === 'bad' && call === 1
  await say('bad', 'one', 'two')
  assert.deepEqual(program.calls, ['bad', 'one', 'two'])
  await pass(stage, SECOND)
  assert.deepEqual(program.calls, ['bad', 'one', 'two', 'bad'])
  assert.equal(onDisk(bob), 0)
})

test('killed while a message waits for its next attempt: it is retried at once, and earlier attempts count', async () => {
  const { stage, bob, say } = await begin()
  const before = new Program(bob, { attempts: 4 })
  before.fails = () => true
  await say('bad')
  await pass(stage, SECOND)
  assert.equal(before.calls.length, 2)
  const again = bob.restart()
  const after = new Program(again, { attempts: 4 })
  after.fails = () => true
  await quiet(stage)
  assert.equal(after.calls.length, 1)
  await pass(stage, 30 * SECOND)
  assert.deepEqual(poisonOf(again), [['bad', 4, 'cannot bad']])
})

test('a message that kills the program at every attempt is eventually put aside', async () => {
  const { stage, bob, say } = await begin()
  let player = bob
  await say('deadly')
  let lives = 0
  for (; lives < 20 && player.channel.poison.isEmpty; lives++) {
    const program = new Program(player, { attempts: 3 })
    // It is never done.
    program.fails = () => new Promise(() => {})
    await quiet(stage)
    if (!player.channel.poison.isEmpty) break
    player = player.restart()
    await quiet(stage)
  }
  // The first attempt is not written down.
  assert.equal(lives, 4)
  assert.deepEqual(poisonOf(player), [['deadly', 3, 'The program ended during the last attempt.']])
})

test('killed at any write, a message is in the inbox or put aside, never both or neither', async () => {
  for (let kill = 1; ; kill++) {
    const { stage, bob, say } = await begin()
    const program = new Program(bob, { attempts: 2 })
    program.fails = () => true
    let writes = 0
    let killed: Player | undefined
    const write = bob.store.write.bind(bob.store)
    bob.store.write = (changes) => {
      if (changes.length > 0) writes++
      if (writes < kill) return write(changes)
      bob.store.write = write
      killed = bob.restart()
    }
    await say('bad')
    await pass(stage, SECOND)
    bob.store.write = write
    const again = killed ?? bob.restart()
    await quiet(stage)
    const isPutAside = !again.channel.poison.isEmpty
    assert.equal(onDisk(again), isPutAside ? 0 : 1, `killed at write ${kill}`)
    const after = new Program(again)
    await quiet(stage)
    assert.deepEqual(after.calls, isPutAside ? [] : ['bad'], `killed at write ${kill}`)
    if (!killed) return assert.ok(isPutAside && kill > 3)
  }
})

test('when no more messages of a sender can be put aside, the message is retried and nothing is lost', async () => {
  const { stage, bob, say } = await begin()
  const program = new Program(bob, { attempts: 1 })
  program.fails = () => true
  const words = Array.from({ length: 251 }, (_, n) => `bad ${n}`)
  for (let at = 0; at < words.length; at += 50) await say(...words.slice(at, at + 50))
  assert.equal(bob.channel.poison.list().length, 250)
  assert.deepEqual(
    bob
      .told('poison')
      .slice(-2)
      .map(({ isPutAside }) => isPutAside),
    [true, false],
  )
  const calls = program.calls.length
  await pass(stage, 5 * MINUTE)
  assert.equal(program.calls.length, calls + 1)
  assert.equal(onDisk(bob), 1)
  const [first] = bob.channel.poison.list()
  await bob.channel.poison.drop(toHex(first!.record.messageId))
  await pass(stage, 5 * MINUTE)
  assert.deepEqual([onDisk(bob), bob.channel.poison.list().length], [0, 250])
})

test('an aborted handler loop finishes the message in progress, releases waiting ones, and ends', async () => {
  const { stage, bob, say } = await begin()
  const stop = new AbortController()
  const program = new Program(bob, { signal: stop.signal })
  program.fails = () => true
  await say('bad', 'next')
  stop.abort()
  await program.ended
  assert.deepEqual(program.calls, ['bad'])
  assert.deepEqual(await bob.take(), ['bad', 'next'])
  await assert.rejects(
    handleMessages(bob, bob.channel, () => {}, { concurrency: 0 }),
    { code: 'invalid_request' },
  )
  await quiet(stage)
})

test('a sender whose message fails does not hold back others, and its own later messages wait in order', async () => {
  const stage = await Stage.start(['alice', 'bob', 'mal'])
  const [alice, bob, mal] = ['alice', 'bob', 'mal'].map((name) => stage.player(name)) as [Player, Player, Player]
  let running = 0
  let most = 0
  const program = new Program(bob, { attempts: 2 })
  program.fails = async (text) => {
    most = Math.max(most, ++running)
    await setImmediate()
    running--
    return text.startsWith('bad')
  }
  const say = async (player: Player, ...words: string[]): Promise<void> => {
    const sending = Promise.all(words.map((word) => player.send(word)))
    await quiet(stage)
    await sending
    await quiet(stage)
  }
  await say(mal, 'bad 1', 'bad 2', 'after')
  await say(alice, 'urgent', 'and more')
  assert.deepEqual(program.calls, ['bad 1', 'urgent', 'and more'])
  await pass(stage, SECOND)
  assert.deepEqual(program.calls.slice(3), ['bad 1', 'bad 2'])
  await say(alice, 'urgent again')
  await pass(stage, SECOND)
  await quiet(stage)
  assert.deepEqual(program.calls.slice(5), ['urgent again', 'bad 2', 'after'])
  assert.deepEqual([onDisk(bob), poisonOf(bob).length, most], [0, 2, 1])
})

test('a sender that uses up its share of messages put aside leaves room to others, even after a restart', async () => {
  const stage = await Stage.start(['alice', 'bob', 'mal'])
  const [alice, bob, mal] = ['alice', 'bob', 'mal'].map((name) => stage.player(name)) as [Player, Player, Player]
  const first = new Program(bob, { attempts: 1 })
  first.fails = () => true
  for (let at = 0; at < 300; at += 50) {
    const sending = Promise.all(Array.from({ length: 50 }, (_, n) => mal.send(`bad ${at + n}`)))
    await quiet(stage)
    await sending
  }
  await quiet(stage)
  assert.equal(bob.channel.poison.list().length, 250)
  const again = bob.restart()
  const program = new Program(again, { attempts: 1 })
  program.fails = (text) => text !== 'good'
  await quiet(stage)
  const sent = Promise.all([alice.send('worse'), alice.send('good')])
  await quiet(stage)
  await sent
  await quiet(stage)
  assert.deepEqual(program.calls.slice(-2), ['worse', 'good'])
  assert.equal(again.channel.poison.list().length, 251)
})

test('a failure that repeats a large message is reported with the start of its text', async () => {
  const { bob, say } = await begin()
  const program = new Program(bob)
  program.fails = () => new Error('x'.repeat(100_000))
  await say('large')
  assert.deepEqual(
    bob.told('handler_failed').map(({ reason }) => reason.length),
    [1000],
  )
})

test('a message put aside cannot be read: handling ends with the error, and the next handler gets the message', async () => {
  const { stage, bob, say } = await begin()
  new Program(bob, { attempts: 1 }).fails = () => true
  await say('first')
  const again = bob.restart()
  again.store.poison = () => {
    throw StaticError.of('store_corrupt')
  }
  const program = new Program(again, { attempts: 1 })
  program.fails = () => true
  await say('second')
  await assert.rejects(program.ended, { code: 'store_corrupt' })
  Reflect.deleteProperty(again.store, 'poison')
  const next = new Program(again)
  await quiet(stage)
  assert.deepEqual([next.calls, onDisk(again)], [['second'], 0])
})
