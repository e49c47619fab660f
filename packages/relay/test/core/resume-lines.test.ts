/** The turns of Resumes, apart from the relay: whose is next, and how deep the stack gets. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ResumeTurn, ResumeTurns } from '../../src/core/channels/resume-turns.ts'
import type { Stream } from '../../src/core/sessions/stream.ts'

interface World {
  readonly turns: ResumeTurns
  /** What has started and was dropped, by name. */
  readonly started: string[]
  readonly dropped: string[]
  /** A Resume of an agent on a stream of its own, without ids if it names no channels. */
  readonly make: (name: string, agent: string, names?: number, start?: (stream: Stream) => boolean) => ResumeTurn
}

function makeWorld(): World {
  const turns = new ResumeTurns()
  const started: string[] = []
  const dropped: string[] = []
  return {
    turns,
    started,
    dropped,
    make: (name, agent, names, start = () => true) => {
      const stream = { address: '192.0.2.1' } as Stream
      const run = (): boolean => {
        started.push(name)
        return start(stream)
      }
      return { stream, agent, names, start: run, drop: () => dropped.push(name) }
    },
  }
}

test('Resumes without ids of one agent hold up no other agent of its address, and keep their order', () => {
  const { turns, started, make } = makeWorld()
  const own = Array.from({ length: 4 }, (_, at) => make(`own ${at}`, 'mallory'))
  for (const turn of own) turns.take(turn)
  turns.take(make('named', 'mallory', 1))
  turns.take(make('other', 'other'))
  assert.deepEqual(started, ['own 0', 'named', 'other'])
  const last = make('own 4', 'mallory')
  turns.take(last)
  for (const turn of [...own, last]) turns.end(turn)
  assert.deepEqual(started.slice(3), ['own 1', 'own 2', 'own 3', 'own 4'])
})

test('a Resume without ids that waits for another of its agent also waits for room, ahead of later ones', () => {
  const { turns, started, dropped, make } = makeWorld()
  const own = Array.from({ length: 3 }, (_, at) => make(`own ${at}`, 'mallory'))
  for (const turn of own) turns.take(turn)
  const large = make('large', 'other', 3008)
  turns.take(large)
  turns.take(make('later', 'third', 3000))
  const [first, second] = own as [ResumeTurn, ResumeTurn]
  turns.end(first)
  assert.deepEqual(started, ['own 0', 'large', 'own 1'])
  turns.closed(own[2]!.stream)
  assert.deepEqual(dropped, ['own 2'])
  turns.end(second)
  turns.end(large)
  turns.take(make('own 3', 'mallory'))
  assert.deepEqual(started.slice(3), ['later', 'own 3'])
})

test('when the stream of one whose agent has no other ends while it waits for room, the next of its agent is next', () => {
  const { turns, started, dropped, make } = makeWorld()
  const at = (network: number, turn: ResumeTurn): ResumeTurn => {
    turn.stream.address = `2001:db8:0:${network.toString(16)}::/64`
    return turn
  }
  const own = [0, 1, 2].map((number) => at(1, make(`own ${number}`, 'mallory')))
  for (const turn of own) turns.take(turn)
  // The room of the /48: 16 times that of an address.
  for (let network = 2; network < 17; network++) turns.take(at(network, make('others', 'others', 3072)))
  turns.take(at(17, make('others', 'others', 3008)))
  const next = at(18, make('next', 'next', 64))
  turns.take(next)
  started.length = 0
  const [first, second] = own as [ResumeTurn, ResumeTurn]
  turns.end(first)
  turns.closed(second.stream)
  assert.deepEqual([started, dropped], [['next'], ['own 1']])
  turns.end(next)
  assert.deepEqual(started, ['next', 'own 2'])
})

test('however many waiting requests are refused and end their streams, the call stack does not grow', () => {
  const { turns, started, make } = makeWorld()
  const first = make('first', 'first', 3072)
  turns.take(first)
  const depths: number[] = []
  let depth = 0
  const refuse = (stream: Stream): boolean => {
    depths.push(++depth)
    // As the refusal of the last request does when the relay stops.
    turns.closed(stream)
    depth--
    return false
  }
  for (let at = 0; at < 500; at++) turns.take(make('refused', `agent ${at % 50}`, undefined, refuse))
  turns.take(make('last', 'last', 3072))
  turns.end(first)
  assert.deepEqual(new Set(depths), new Set([1]))
  assert.equal(depths.length, 500)
  assert.equal(started.at(-1), 'last')
})
