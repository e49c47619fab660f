/** How an agent polls for join requests: each is downloaded once, and no answer of the relay makes it poll faster. */
import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { toHex } from '@static/protocol'
import { type JoinRequest, type PollJoinRequestsRequest, PollJoinRequestsResponseSchema } from '@static/protocol/relay'
import { type ChannelPolls, JoinPolls, PendingJoins } from '../../src/admitting/polls.ts'

const CHANNEL = '11'.repeat(16)
/** After so many polls, the relay falls silent. */
const MOST = 500

/** A request of a joiner. */
const asked = (number: number, size = 100): object => {
  const [inviteId, agentId] = [new Uint8Array(16), new Uint8Array(32)]
  new DataView(agentId.buffer).setUint32(0, number)
  return { inviteId, agentId, box: new Uint8Array(size), number: BigInt(number) }
}

const answered = (fields: object): ReturnType<typeof create<typeof PollJoinRequestsResponseSchema>> =>
  create(PollJoinRequestsResponseSchema, fields)

const numbersOf = (requests: readonly JoinRequest[]): number[] => requests.map(({ number }) => Number(number))

test('requests from a poll are kept as long as the relay says that they wait', () => {
  const pending = new PendingJoins()
  assert.deepEqual(numbersOf(pending.update(answered({ requests: [asked(1), asked(2)], last: 2n }))), [1, 2])
  assert.equal(pending.after, 2n)
  assert.deepEqual(numbersOf(pending.update(answered({ requests: [asked(5)], last: 5n, pending: [2n] }))), [5])
  assert.deepEqual(numbersOf(pending.all), [2, 5])
  // A relay that begins again, or stops: all come again.
  assert.deepEqual(pending.update(answered({ requests: [asked(1)], last: 1n })), [])
  assert.deepEqual([pending.after, pending.all], [0n, []])
})

test('a relay cannot make an agent keep more than its bounds', () => {
  const pending = new PendingJoins()
  for (let number = 1; number <= 300; number++) {
    const before = numbersOf(pending.all).map(BigInt)
    pending.update(answered({ requests: [asked(number, 16_384)], last: BigInt(number), pending: before }))
  }
  assert.equal(pending.all.length, 256)
  assert.equal(numbersOf(pending.all).at(-1), 300)
  assert.deepEqual(pending.update(answered({ requests: [asked(301, 16_385)], last: 301n })), [])
  const many = Array.from({ length: 5000 }, (_, n) => asked(400 + n, 1))
  pending.update(answered({ requests: many, last: 5400n }))
  assert.equal(pending.all.length, 2048)
})

/** A loop of polls whose relay answers what it is told, under a clock that the test moves. */
function loop(answer: (poll: PollJoinRequestsRequest) => object): {
  readonly polls: PollJoinRequestsRequest[]
  readonly taken: number[][]
  readonly joins: JoinPolls
  readonly stop: () => void
} {
  const polls: PollJoinRequestsRequest[] = []
  const taken: number[][] = []
  const later = (ms: number, action: () => void): (() => void) => {
    const timer = setTimeout(action, ms)
    return () => clearTimeout(timer)
  }
  const requests = {
    outcome: ({ value }: { value: PollJoinRequestsRequest }) => {
      polls.push(value)
      return polls.length > MOST ? new Promise<never>(() => {}) : Promise.resolve(answer(value))
    },
  }
  const timers = { later, wait: (ms: number) => new Promise<void>((resolve) => void later(ms, resolve)) }
  const agent = { context: { now: () => Date.now() }, requests, timers }
  const joins = new JoinPolls(agent as never)
  let isStopped = false
  const run = async (channelPolls: ChannelPolls): Promise<void> => {
    while (!isStopped) {
      taken.push(numbersOf((await channelPolls.next({ channelId: Buffer.from(CHANNEL, 'hex') } as never)) ?? []))
      await channelPolls.pause()
    }
  }
  const begun = joins.begin(CHANNEL)
  assert.ok(begun && !joins.begin(CHANNEL))
  void run(begun)
  return { polls, taken, joins, stop: () => void (isStopped = true) }
}

/** Lets time pass in small steps. */
async function pass(milliseconds: number): Promise<void> {
  for (let passed = 0; passed < milliseconds; passed += 50) {
    for (let turns = 0; turns < 60; turns++) await Promise.resolve()
    mock.timers.tick(50)
  }
}

test('a relay that answers at once, with nothing or with a refusal, does not make an agent poll faster', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  t.after(() => mock.timers.reset())
  const body = { case: 'pollJoinRequests', value: answered({}) }
  const refused = { type: 'refused', error: { code: 'rate_limited', retryAfterMs: 0 } }
  for (const outcome of [{ type: 'answered', body }, refused]) {
    const { polls, stop } = loop(() => outcome)
    await pass(20_000)
    assert.ok(polls.length <= 120 && polls.length > 50, `${polls.length} polls in 20 s`)
    stop()
    await pass(1000)
  }
})

test('each poll goes on after the last, and begins again in another session', async (t) => {
  mock.timers.enable({ apis: ['setTimeout', 'Date'] })
  t.after(() => mock.timers.reset())
  const { polls, taken, joins, stop } = loop(({ after }) => {
    const value = answered(
      after === 0n ? { requests: [asked(1), asked(2)], last: 2n } : { last: after, pending: after >= 2n ? [2n] : [] },
    )
    return { type: 'answered', body: { case: 'pollJoinRequests', value } }
  })
  await pass(50)
  assert.deepEqual(
    polls.slice(0, 3).map(({ after }) => after),
    [0n, 2n, 2n],
  )
  // What could not be decided is tried again.
  assert.deepEqual(taken.slice(0, 3), [[1, 2], [2], [2]])
  const before = polls.length
  joins.opened()
  await pass(5000)
  assert.equal(polls.slice(before).filter(({ after }) => after === 0n).length, 1)
  assert.equal(toHex(polls[0]?.channelId ?? new Uint8Array()), CHANNEL)
  stop()
  await pass(1000)
})
