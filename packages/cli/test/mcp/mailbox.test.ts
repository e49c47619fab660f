/** What has arrived for a model, in its order: messages, warnings, and what was never confirmed. */
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { StaticError } from '@static/protocol'
import type { Message } from '../../src/agent/actions.ts'
import type { Follower } from '../../src/agent/message-queue.ts'
import type { Item } from '../../src/mcp/lane.ts'
import { Mailbox, type MailboxAgent } from '../../src/mcp/mailbox.ts'
import { NoticeFile } from '../../src/mcp/notice-file.ts'
import { noticeOf } from '../../src/mcp/notices.ts'

/** Channels with messages, of which the settled ones are recorded. */
class Channels {
  readonly settled: string[] = []
  readonly given: string[] = []
  /** Messages that are there are handed over after it. */
  disk: Promise<void> = Promise.resolve()
  readonly #messages = new Map<string, Message[]>()
  readonly #waiting = new Map<string, ((message: Message) => void)[]>()
  readonly #errors = new Map<string, StaticError>()

  constructor(...names: readonly string[]) {
    for (const name of names) this.#messages.set(name, [])
  }

  arrive(channel: string, index: number): void {
    const sender = { agent_id: 'a', fingerprint: 'a', identity: 'ann', name: 'ann' }
    const fields = { message_id: 'f', epoch: 1, time: 'now', redelivered: false, sender, payload: 'eA==' }
    const message = { channel, index, ...fields }
    const waiter = this.#waiting.get(channel)?.shift()
    if (waiter) waiter(message)
    else this.#messages.get(channel)?.push(message)
  }

  fail(channel: string, error: StaticError): void {
    this.#errors.set(channel, error)
  }

  mailbox(onArrival?: () => void, kept?: NoticeFile): Mailbox {
    const call = (): Promise<never> => Promise.resolve([...this.#messages.keys()] as never)
    const serve = (): Promise<void> => new Promise(() => {})
    const agent: MailboxAgent = { call, serve, follow: (name) => this.#follow(name) }
    return new Mailbox(agent, onArrival, kept)
  }

  #follow(channel: string): Follower {
    const messages = this.#messages.get(channel)
    if (!messages) throw StaticError.of('not_found')
    let held: Message | undefined
    const hasError = (): boolean => this.#errors.has(channel)
    return {
      get hasNext() {
        return messages.length > 0 || hasError()
      },
      next: async () => {
        const error = this.#errors.get(channel)
        if (messages.length > 0) await this.disk
        held = messages.shift()
        if (!held && error) throw error
        const waiting = this.#waiting.get(channel) ?? []
        this.#waiting.set(channel, waiting)
        held ??= await new Promise<Message>((resolve) => waiting.push(resolve))
        return held
      },
      given: () => void this.given.push(`${channel} ${held?.index}`),
      settle: () => void this.settled.push(`${channel} ${held?.index}`),
      abandon: () => {},
    }
  }
}

let requests = 0

/** Receives and describes what came. */
async function receive(
  mailbox: Mailbox,
  { channel, most = Infinity, waitMs = 50_000, signal = new AbortController().signal } = {} as {
    readonly channel?: string
    readonly most?: number
    readonly waitMs?: number
    readonly signal?: AbortSignal
  },
): Promise<readonly string[]> {
  const items: Item[] = []
  const add = (item: Item): boolean => items.length < most && items.push(item) > 0
  const request = ++requests
  mailbox.arrived(request)
  await mailbox.receive({ request, channel, waitMs, signal, add })
  mailbox.answered(request)
  return items.map((item) =>
    'message' in item
      ? `${item.channel} ${item.message.index}${item.message.redelivered ? ' again' : ''}`
      : `${item.channel} ${item.notice.notice}`,
  )
}

test('an answer settles nothing, the next call settles it', async () => {
  const channels = new Channels('a')
  const mailbox = channels.mailbox()
  channels.arrive('a', 1)
  channels.arrive('a', 2)
  assert.deepEqual(await receive(mailbox), ['a 1', 'a 2'])
  assert.deepEqual(channels.settled, [])
  const next = receive(mailbox)
  assert.deepEqual(channels.settled, ['a 1', 'a 2'])
  channels.arrive('a', 3)
  assert.deepEqual(await next, ['a 3'])
})

test('a call that the host sent before an answer was written settles nothing of it', async () => {
  const channels = new Channels('a')
  const mailbox = channels.mailbox()
  const call = (request: string, waitMs: number): Promise<void> =>
    mailbox.receive({ request, channel: undefined, waitMs, signal: new AbortController().signal, add: () => true })
  channels.arrive('a', 1)
  mailbox.arrived('first')
  await call('first', 50_000)
  // Two were sent before the answer was written. One of them is served only afterwards.
  mailbox.arrived('second')
  mailbox.arrived('third')
  await call('second', 1)
  mailbox.answered('first')
  await call('third', 1)
  assert.deepEqual(channels.settled, [])
  mailbox.arrived('fourth')
  await call('fourth', 1)
  assert.deepEqual(channels.settled, ['a 1'])
})

test('a message that does not fit waits for the next call, in order, and no channel keeps another out', async () => {
  const channels = new Channels('a', 'b')
  const mailbox = channels.mailbox()
  for (let index = 1; index <= 3; index++) channels.arrive('a', index)
  channels.arrive('b', 9)
  const answers = []
  for (let call = 0; call < 4; call++) answers.push(...(await receive(mailbox, { most: 1 })))
  assert.deepEqual(
    answers.filter((words) => words.startsWith('a')),
    ['a 1', 'a 2', 'a 3'],
  )
  assert.ok(answers.indexOf('b 9') < 2, answers.join())
})

test('warnings come in their place', async () => {
  const channels = new Channels('a')
  const mailbox = channels.mailbox()
  channels.arrive('a', 4)
  channels.arrive('a', 9)
  mailbox.addNotice('a', { notice: 'gap', first: 5, last: 8 })
  assert.deepEqual(await receive(mailbox), ['a 4', 'a gap', 'a 9'])
  channels.arrive('a', 10)
  mailbox.addNotice('a', { notice: 'key_changed', identity: 'ann', known: '1', now: '2' })
  mailbox.addNotice('a', { notice: 'fork', identity: 'mal', member: '1' })
  assert.deepEqual(await receive(mailbox), ['a key_changed', 'a fork', 'a 10'])
  // The end of a channel comes after its last message, and once.
  channels.arrive('a', 11)
  channels.fail('a', StaticError.of('removed'))
  assert.deepEqual(await receive(mailbox), ['a 11', 'a failed'])
  assert.deepEqual(await receive(mailbox, { waitMs: 1 }), [])
})

test('a gap that was kept comes after the messages before it, which have to be read from disk first', async (context) => {
  const directory = mkdtempSync(join(tmpdir(), 'static-notices-'))
  context.after(() => rmSync(directory, { recursive: true }))
  const channel = 'acme/support/routing'
  new Channels(channel)
    .mailbox(undefined, new NoticeFile(directory))
    .addNotice(channel, { notice: 'gap', first: 5, last: 8 })
  const channels = new Channels(channel)
  for (const index of [3, 4, 9]) channels.arrive(channel, index)
  const disk = Promise.withResolvers<void>()
  channels.disk = disk.promise
  const answer = receive(channels.mailbox(undefined, new NoticeFile(directory)))
  for (let turns = 0; turns < 3; turns++) await turn()
  disk.resolve()
  assert.deepEqual(await answer, [`${channel} 3`, `${channel} 4`, `${channel} gap`, `${channel} 9`])
})

test('a warning that no model has confirmed comes again in the next session', async (context) => {
  const directory = mkdtempSync(join(tmpdir(), 'static-notices-'))
  context.after(() => rmSync(directory, { recursive: true }))
  const channel = 'acme/support/routing'
  const session = (): Mailbox => new Channels(channel).mailbox(undefined, new NoticeFile(directory))
  const first = session()
  first.addNotice(channel, { notice: 'gap', first: 5, last: 8 })
  first.addNotice(channel, { notice: 'fork', identity: 'mal', member: '1' })
  assert.equal(statSync(join(directory, 'notices.json')).mode & 0o777, 0o600)
  const second = session()
  assert.deepEqual(await receive(second), [`${channel} fork`, `${channel} gap`])
  // Nothing has confirmed them yet.
  const third = session()
  assert.deepEqual(await receive(third), [`${channel} fork`, `${channel} gap`])
  await receive(third, { waitMs: 1 })
  assert.deepEqual(await receive(session(), { waitMs: 1 }), [])
  // A damaged file is no reason not to start.
  for (const content of ['{', '[1,{"channel":"x"},{"channel":"a/b/c","notice":{"notice":"gap"}}]', '{}']) {
    writeFileSync(join(directory, 'notices.json'), content, { mode: 0o600 })
    assert.deepEqual(new NoticeFile(directory).kept, [])
  }
})

test('the end of a channel that the agent is no longer in is told once, and again until it is confirmed', async (context) => {
  const directory = mkdtempSync(join(tmpdir(), 'static-notices-'))
  context.after(() => rmSync(directory, { recursive: true }))
  const channel = 'acme/support/routing'
  const failed = noticeOf({ type: 'channel_failed', channel, error: StaticError.of('removed') })
  assert.ok(failed)
  // It was removed while no session was open: the agent no longer lists it.
  const first = new Channels().mailbox(undefined, new NoticeFile(directory))
  first.addNotice(failed.channel, failed.notice)
  first.addNotice(failed.channel, { ...failed.notice })
  assert.deepEqual(await receive(first), [`${channel} failed`])
  // A call that already waits gets it, too.
  const waiting = new Channels('a').mailbox()
  const answer = receive(waiting)
  await turn()
  waiting.addNotice(failed.channel, failed.notice)
  assert.deepEqual(await answer, [`${channel} failed`])
  const second = new Channels().mailbox(undefined, new NoticeFile(directory))
  second.addNotice(failed.channel, { ...failed.notice })
  assert.deepEqual(await receive(second), [`${channel} failed`])
  assert.deepEqual(await receive(second, { waitMs: 1 }), [])
  // Found by reading, too: after the last message, once, and kept.
  const channels = new Channels(channel)
  const kept = new NoticeFile(directory)
  const third = channels.mailbox(undefined, kept)
  channels.arrive(channel, 4)
  channels.arrive(channel, 5)
  channels.fail(channel, StaticError.of('removed'))
  third.addNotice(failed.channel, { ...failed.notice })
  assert.deepEqual(await receive(third), [`${channel} 4`, `${channel} 5`, `${channel} failed`])
  third.addNotice(failed.channel, { ...failed.notice })
  assert.equal(kept.kept.length, 1)
  assert.deepEqual(await receive(third, { waitMs: 1 }), [])
  assert.equal(kept.kept.length, 0)
})

test('members cannot fill the memory with warnings, nor keep out those that must be known', async (context) => {
  const directory = mkdtempSync(join(tmpdir(), 'static-notices-'))
  context.after(() => rmSync(directory, { recursive: true }))
  const kept = new NoticeFile(directory)
  const names = Array.from({ length: 11 }, (_, at) => `acme/support/c${at}`)
  const channels = new Channels(...names)
  const mailbox = channels.mailbox(undefined, kept)
  for (const name of names) {
    for (let count = 0; count < 30; count++) {
      mailbox.addNotice(name, { notice: 'key_changed', identity: 'm', known: '1', now: String(count) })
    }
  }
  for (let count = 0; count < 1000; count++)
    mailbox.addNotice('acme/support/c0', { notice: 'fork', identity: 'mal', member: 'x' })
  mailbox.addNotice('acme/support/c0', { notice: 'failed', code: 'removed', message: 'Removed.' })
  assert.equal(kept.kept.length, 200)
  assert.deepEqual(
    kept.kept.slice(-2).map(({ notice }) => notice.notice),
    ['fork', 'failed'],
  )
  const got = await receive(mailbox, { channel: 'acme/support/c0' })
  assert.equal(got.length, 22)
  assert.deepEqual(got.slice(-2), ['acme/support/c0 fork', 'acme/support/c0 failed'])
})

test('an answer that the host dropped comes again before later messages', async () => {
  const channels = new Channels('a')
  const mailbox = channels.mailbox()
  channels.arrive('a', 1)
  channels.arrive('a', 2)
  assert.deepEqual(await receive(mailbox), ['a 1', 'a 2'])
  channels.arrive('a', 3)
  mailbox.putBack(requests)
  assert.deepEqual(await receive(mailbox), ['a 1 again', 'a 2 again', 'a 3'])
  assert.deepEqual(channels.settled, [])
})

test('answers that the host dropped one after the other come again in order', async () => {
  const channels = new Channels('a')
  const mailbox = channels.mailbox()
  const [first, second] = [receive(mailbox), receive(mailbox)]
  const request = requests
  channels.arrive('a', 1)
  await first
  channels.arrive('a', 2)
  await second
  mailbox.putBack(request - 1)
  mailbox.putBack(request)
  channels.arrive('a', 3)
  assert.deepEqual(await receive(mailbox), ['a 1 again', 'a 2 again', 'a 3'])
})

test('a cancelled call takes nothing', async () => {
  const channels = new Channels('a')
  const mailbox = channels.mailbox()
  const stop = new AbortController()
  const cancelled = receive(mailbox, { signal: stop.signal })
  stop.abort()
  assert.deepEqual(await cancelled, [])
  channels.arrive('a', 1)
  assert.deepEqual(await receive(mailbox), ['a 1'])
})

test('calls at the same time share the messages, and too many are refused', async () => {
  const channels = new Channels('a')
  const mailbox = channels.mailbox()
  const got: string[] = []
  const answered = new EventEmitter()
  for (let count = 0; count < 16; count++) {
    void receive(mailbox).then((words) => answered.emit('answer', got.push(...words)))
  }
  await assert.rejects(receive(mailbox), { code: 'rate_limited' })
  for (let index = 1; index <= 16; index++) {
    const answer = once(answered, 'answer')
    channels.arrive('a', index)
    await answer
  }
  assert.deepEqual(
    got,
    Array.from({ length: 16 }, (_, at) => `a ${at + 1}`),
  )
})

test('something that arrives while no call waits is reported once', async () => {
  const channels = new Channels('a')
  let arrivals = 0
  const mailbox = channels.mailbox(() => arrivals++)
  await mailbox.watch()
  for (let index = 1; index <= 5; index++) channels.arrive('a', index)
  await turn()
  // It was fetched, but only an answer delivers it.
  assert.deepEqual(channels.given, [])
  assert.equal((await receive(mailbox)).length, 5)
  assert.equal(arrivals, 1)
  assert.equal(channels.given.length, 5)
})

test('something that arrives while only a call for another channel waits is reported', async () => {
  const channels = new Channels('a', 'b')
  let arrivals = 0
  const mailbox = channels.mailbox(() => arrivals++)
  await mailbox.watch()
  const other = receive(mailbox, { channel: 'a' })
  await turn()
  channels.arrive('b', 1)
  await turn()
  assert.equal(arrivals, 1)
  channels.arrive('a', 1)
  assert.deepEqual(await other, ['a 1'])
  assert.equal(arrivals, 1)
})

test('two thousand channels are watched, and a message in one is found', async () => {
  const names = Array.from({ length: 2000 }, (_, at) => `c${at}`)
  const channels = new Channels(...names)
  const mailbox = channels.mailbox()
  channels.arrive('c1777', 1)
  assert.deepEqual(await receive(mailbox), ['c1777 1'])
})

test('a channel that the agent is not in is refused, and leaves nothing behind', async () => {
  const mailbox = new Channels('a').mailbox()
  await assert.rejects(receive(mailbox, { channel: 'b' }), { code: 'not_found' })
  assert.equal((await mailbox.watch()).length, 1)
  // Its end can still be read.
  mailbox.addNotice('b', { notice: 'failed', code: 'removed', message: 'Removed.' })
  assert.deepEqual(await receive(mailbox, { channel: 'b' }), ['b failed'])
})
