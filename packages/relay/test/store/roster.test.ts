/**
 * Random commits, leaves and rejections, in any order: the roster must always be the one of the same log without the
 * roster changes of the rejected commits. The oracle reads the whole log anew each time.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomNumbers, SEED } from '@static/testkit/random'
import { type ChannelFixture, accepted, agentId, forLedger, member } from './channel-fixture.ts'

/** More with STATIC_LONG=1. */
const STORIES = process.env['STATIC_LONG'] === '1' ? 12 : 4
const STEPS = 90
const OTHERS = ['bob', 'carol', 'dave', 'erin', 'frank']

type Told =
  | {
      readonly kind: 'commit'
      readonly index: number
      readonly adds: readonly string[]
      readonly removes: readonly string[]
    }
  | { readonly kind: 'leave'; readonly index: number; readonly agent: string }

interface Membership {
  readonly from: number
  readonly end?: number
  readonly pending?: boolean
}

/** What an agent is after a log, some slots of it left out. */
function tell(log: readonly Told[], rejected: ReadonlySet<number>, name: string): Membership | undefined {
  let now: Membership | undefined
  let slot = 0
  for (const told of log) {
    const { index } = told
    if (told.kind === 'leave') {
      if (told.agent === name && now && now.end === undefined) now = { ...now, end: index, pending: true }
      continue
    }
    if (rejected.has(slot++)) continue
    if (told.removes.includes(name) && now) now = { from: now.from, end: now.end ?? index }
    if (told.adds.includes(name)) now = { from: index }
  }
  return now
}

async function check(world: ChannelFixture, log: readonly Told[], rejected: ReadonlySet<number>): Promise<void> {
  const { lastIndex } = await world.stand('alice')
  const standings = await Promise.all(OTHERS.map((name) => world.standing(name)))
  for (const [at, name] of OTHERS.entries()) {
    const expected = tell(log, rejected, name)
    const found = standings[at]!
    assert.deepEqual(
      'head' in found ? [found.cursor.index, found.lastIndex, found.removed] : found.refused,
      expected ? [expected.from, expected.end ?? lastIndex, expected.end !== undefined] : 'not_found',
      name,
    )
  }
}

forLedger((open) => {
  for (let story = 0; story < STORIES; story++) {
    test(`rejected commits have no effect on the roster (seed ${SEED + story})`, async (t) => {
      const random = randomNumbers(SEED + story)
      const pick = (count: number): number => Math.floor(random() * count)
      const world = await open(t)
      await world.found('alice')
      const log: Told[] = []
      const rejected = new Set<number>()
      const isInGroup = (name: string): boolean => {
        const now = tell(log, rejected, name)
        return now !== undefined && (now.end === undefined || now.pending === true)
      }
      for (let at = 0; at < STEPS; at++) {
        const name = OTHERS[pick(OTHERS.length)]!
        const what = random()
        if (what < 0.55) {
          const touched = OTHERS.filter(() => random() < 0.4)
          const removes = touched.filter((agent) => isInGroup(agent))
          const adds = touched.filter((agent) => !removes.includes(agent) || random() < 0.4)
          const index = accepted(await world.commit('alice', { adds, removes }))
          log.push({ kind: 'commit', index, adds, removes })
        } else if (what < 0.7) {
          const now = tell(log, rejected, name)
          if (now && now.end === undefined) {
            log.push({ kind: 'leave', index: accepted(await world.leave(name)), agent: name })
          }
        } else if (world.head > 0) {
          const slot = Math.max(0, world.head - 1 - pick(random() < 0.8 ? 6 : 64))
          assert.ok('rejected' in (await world.reject(member('alice'), slot)))
          rejected.add(slot)
          await world.run('liftBar', { actor: member('alice'), channel: world.channel, agent: agentId('alice') })
        }
        await check(world, log, rejected)
      }
    })
  }
})
