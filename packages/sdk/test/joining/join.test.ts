/** The states of a join: their table, and what each follows from. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { parseChannelName, StaticError, toHex } from '@static/protocol'
import { inviteKeys } from '../../src/admitting/keys.ts'
import type { AgentEvent } from '../../src/agent/events.ts'
import type { AgentChannel } from '../../src/channel/channel.ts'
import {
  isEntered,
  isIn,
  isOver,
  JOIN_MOVES,
  type JoinFacts,
  joinState,
  type JoinState,
} from '../../src/joining/join.ts'
import { OpenJoins } from '../../src/joining/open-joins.ts'

const DAY_MS = 86_400_000
const NOW = 1_800_000_000_000
const NAME = parseChannelName('acme/x/y')
const OWNER = toHex(randomBytes(32))
const CHANNEL = toHex(randomBytes(16))
const STATES = Object.keys(JOIN_MOVES) as JoinState[]
const ENDS: readonly JoinState[] = ['joined', 'refused', 'left', 'broken']

type Channel = NonNullable<JoinFacts['channel']>

function record(changes: Partial<JoinFacts['record']> = {}): JoinFacts['record'] {
  return { name: NAME, owner: OWNER, admit: 'owner', expiresAt: NOW + 1, takenBack: false, ...changes }
}

function channel(state: Channel['state'], changes: Partial<Channel> = {}): Channel {
  return { name: NAME, owner: OWNER, state, failure: undefined, group: {} as Channel['group'], ...changes }
}

function stateOf(facts: Partial<JoinFacts> = {}): JoinState {
  return joinState({ record: record(), channel: undefined, hasWelcome: false, end: undefined, now: NOW, ...facts })
}

function movesFrom(state: JoinState): JoinState[] {
  return Object.keys(JOIN_MOVES[state]) as JoinState[]
}

/** The states that follow some, however many moves later. */
function reachable(...from: JoinState[]): Set<JoinState> {
  const reached = new Set(from)
  for (const state of reached) for (const next of movesFrom(state)) reached.add(next)
  return reached
}

/** The joins of an agent with one record on disk. */
function oneJoin(takenBack = false): {
  joins: OpenJoins
  channels: Map<string, Channel>
  changes: string[]
  events: AgentEvent[]
} {
  const channels = new Map<string, Channel>()
  const changes: string[] = []
  const events: AgentEvent[] = []
  const secret = randomBytes(32)
  const invite = toHex(inviteKeys(secret).inviteId)
  const request = { secret, nonce: randomBytes(16), keyPackage: randomBytes(300) }
  const attempt = { invite, channel: CHANNEL, ...request, ...record({ takenBack }) }
  const context = {
    journal: { add: ({ type }: { type: string }) => changes.push(type) },
    now: () => NOW,
    emit: (event: AgentEvent) => events.push(event),
  }
  const keyPackages = { forget: () => changes.push('forget') }
  const agent = { context, keyPackages, channels, stored: { attempts: [attempt] } }
  return { joins: new OpenJoins(agent as never), channels, changes, events }
}

test('every state of a join can be reached by asking, except the one of a bug', () => {
  assert.deepEqual(
    STATES.filter((state) => !reachable('asking').has(state)),
    ['broken'],
  )
})

test('from every state that is not an end, the join can still be joined, refused or left', () => {
  for (const state of STATES.filter((each) => !ENDS.includes(each))) {
    const ends = [...reachable(state)].filter((each) => ENDS.includes(each))
    assert.deepEqual(ends.sort(), ['joined', 'left', 'refused'], state)
  }
})

test('every move has a reason, and leads to another state', () => {
  for (const from of STATES) {
    for (const [to, reason] of Object.entries(JOIN_MOVES[from])) {
      assert.ok(STATES.includes(to as JoinState) && to !== from, `${from} → ${to}`)
      assert.match(reason, /^[a-z].{10,}[^.]$/, `${from} → ${to}`)
    }
  }
})

test('no move leads out of an end, and one out of every other state', () => {
  assert.deepEqual(STATES.filter(isOver), ENDS)
  for (const state of STATES) assert.equal(movesFrom(state).length === 0, ENDS.includes(state), state)
})

test('only an agent that is in the group is greeted, and it enters the group before', () => {
  const before = (to: JoinState): JoinState[] => STATES.filter((from) => movesFrom(from).includes(to))
  assert.deepEqual(before('joined'), ['greeting', 'withdrawn', 'leaving'])
  assert.deepEqual(before('greeting'), ['entering', 'leaving'])
})

test('an agent that has joined by an offer does not ask again by itself', () => {
  assert.deepEqual(movesFrom('withdrawn').sort(), ['dropping', 'joined', 'left', 'refused'])
})

test('a join in which this agent has entered the channel is not refused', () => {
  for (const state of STATES.filter(isEntered)) assert.ok(!movesFrom(state).includes('refused'), state)
  assert.deepEqual(STATES.filter(isEntered), ['entering', 'greeting'])
  assert.deepEqual(STATES.filter(isIn), ['entering', 'greeting', 'withdrawn'])
})

test('a join without a channel asks until its last moment', () => {
  assert.equal(stateOf(), 'asking')
  assert.equal(stateOf({ now: NOW + 1 }), 'expired')
  // A Welcome of a member waits at the relay for 7 days.
  const byMembers = record({ admit: 'members' })
  assert.equal(stateOf({ record: byMembers, now: NOW + 7 * DAY_MS }), 'asking')
  assert.equal(stateOf({ record: byMembers, now: NOW + 7 * DAY_MS + 1 }), 'expired')
})

test('a Welcome that is here keeps a join from asking and from expiring', () => {
  assert.equal(stateOf({ hasWelcome: true }), 'welcomed')
  assert.equal(stateOf({ hasWelcome: true, now: NOW + 1 }), 'welcomed')
})

test('a join is in the channel of its token: by the join before the greeting, or by an offer', () => {
  assert.equal(stateOf({ channel: channel('joining', { group: undefined }) }), 'entering')
  assert.equal(stateOf({ channel: channel('joining') }), 'greeting')
  assert.equal(stateOf({ channel: channel('joining'), now: NOW + 1 }), 'greeting')
  assert.equal(stateOf({ channel: channel('joined') }), 'withdrawn')
  assert.equal(stateOf({ channel: channel('joined'), record: record({ takenBack: true }) }), 'withdrawn')
})

test('an offer, a membership that has ended and a channel that has failed are not the channel of a join', () => {
  const failure = StaticError.of('mls_error')
  const none = [channel('offered'), channel('ended'), channel('joining', { failure }), channel('joined', { failure })]
  for (const each of none) {
    assert.equal(stateOf({ channel: each }), 'asking')
    assert.equal(stateOf({ channel: each, record: record({ takenBack: true }) }), 'dropping')
  }
})

test('a channel with the id in a token, but with another owner or name, does not satisfy a join', () => {
  for (const other of [{ owner: toHex(randomBytes(32)) }, { name: parseChannelName('acme/x/z') }]) {
    assert.equal(stateOf({ channel: channel('joined', other) }), 'asking')
    assert.equal(stateOf({ channel: channel('joining', other) }), 'asking')
    assert.equal(stateOf({ channel: channel('leaving', other) }), 'leaving')
  }
})

test('a request that was taken back is dropped when this agent is out, whatever the time', () => {
  const takenBack = record({ takenBack: true })
  assert.equal(stateOf({ record: takenBack }), 'dropping')
  assert.equal(stateOf({ record: takenBack, now: NOW + 1 }), 'dropping')
  assert.equal(stateOf({ record: takenBack, hasWelcome: true }), 'dropping')
  assert.equal(stateOf({ record: takenBack, channel: channel('leaving') }), 'leaving')
})

test('a join that has ended stays ended, whatever becomes of the channel', () => {
  for (const end of ['joined', 'refused', 'left', 'broken'] as const) {
    for (const held of [undefined, channel('joining'), channel('joined'), channel('leaving')]) {
      assert.equal(stateOf({ end, channel: held }), end)
    }
  }
})

test('a join goes from state to state as the table says, and is forgotten at its end', () => {
  const { joins, channels, changes, events } = oneJoin()
  const [join] = joins
  assert.equal(joins.noteState(join!), 'asking')
  channels.set(CHANNEL, channel('joining', { group: undefined }))
  assert.equal(joins.noteState(join!), 'entering')
  channels.set(CHANNEL, channel('joining'))
  assert.equal(joins.noteState(join!), 'greeting')
  joins.end(join!, 'joined')
  assert.equal(joins.noteState(join!), 'joined')
  assert.deepEqual(changes, ['forget', 'dropAttempt'])
  assert.deepEqual([[...joins], events], [[], []])
})

test('a move that is not in the table fails that join alone, and is reported as a bug', async () => {
  const { joins, channels, changes, events } = oneJoin()
  const [join] = joins
  const call = Promise.withResolvers<AgentChannel>()
  join!.waiting.add(call)
  const other = joins.begin({ ...join!.record, invite: '00', channel: '00', nonce: randomBytes(16) })
  channels.set(CHANNEL, channel('joined'))
  assert.equal(joins.noteState(join!), 'withdrawn')
  // It has been removed, and its request was not taken back.
  channels.delete(CHANNEL)
  assert.equal(joins.noteState(join!), 'broken')
  await assert.rejects(call.promise, /went from withdrawn to asking\. Please report this bug/)
  assert.deepEqual(
    events.map((event) => 'error' in event && event.error.code),
    ['internal_error'],
  )
  assert.deepEqual(changes, ['putAttempt', 'forget', 'dropAttempt'])
  assert.deepEqual([...joins], [other])
  assert.equal(joins.noteState(other), 'asking')
})

test('an end that is not in the table is reported too', () => {
  const { joins, events } = oneJoin()
  const [join] = joins
  assert.equal(joins.noteState(join!), 'asking')
  joins.end(join!, 'joined')
  assert.equal(joins.noteState(join!), 'broken')
  assert.equal(events.length, 1)
})

test('a join is loaded in the state that is on disk', () => {
  const { joins, channels } = oneJoin(true)
  const [join] = joins
  channels.set(CHANNEL, channel('joined'))
  assert.equal(joins.noteState(join!), 'withdrawn')
  const { joins: removed } = oneJoin(true)
  assert.equal(removed.stateOf([...removed][0]!), 'dropping')
})
