/** Many members admit many joiners at once, and are killed at any time: never one too many, and in the end all. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomNumbers, SEED } from '@static/testkit/random'
import type { Player } from '../support/stage.ts'
import { Crowd, type Joiner } from './crowd.ts'

const ROUNDS = Number(process.env['STATIC_CROWDS'] ?? 3)
const MEMBERS = ['owner', 'm1', 'm2', 'm3', 'm4', 'm5', 'm6', 'm7']
const JOINERS = 20
const USES = 5
const STEPS = 60

async function round(seed: number): Promise<void> {
  const random = randomNumbers(seed)
  const below = (limit: number): number => Math.floor(random() * limit)
  const players = Object.fromEntries(MEMBERS.map((name) => [name, { chance: random }]))
  const crowd = await Crowd.start(MEMBERS, { seed, players })
  const { stage } = crowd
  const invite = crowd.invite(USES)
  await crowd.publish(invite)
  const joiners: Joiner[] = []
  for (let n = 0; n < JOINERS; n++) joiners.push(await crowd.joiner(`j${n}`, invite.keys, { chance: random }))
  const isOwnerAway = random() < 0.5
  if (isOwnerAway) crowd.owner.lose()
  const inside = new Set<Joiner>()
  const here = (): Player[] => stage.players.filter((player) => !isOwnerAway || player !== crowd.owner)
  const pending = (): Joiner[] => joiners.filter(({ agentId }) => !crowd.added.includes(agentId))
  const pick = <Item>(items: readonly Item[]): Item => items[below(items.length)] ?? assert.fail()
  const enter = async (): Promise<void> => {
    for (const joiner of joiners) {
      if (inside.has(joiner) || !crowd.added.includes(joiner.agentId)) continue
      inside.add(joiner)
      await joiner.enter()
    }
  }

  for (let step = 0; step < STEPS; step++) {
    const player = pick(here())
    const roll = random()
    const some = pending().filter(() => random() < 0.4)
    if (roll < 0.45) {
      crowd.poll(
        player,
        some.map(({ request }) => request),
      )
    } else if (roll < 0.6) player.restart(below(player.requests.length + 1))
    else if (roll < 0.7) {
      player.lose(below(player.requests.length + 1))
      player.resume()
    } else if (roll < 0.8) await enter()
    else await stage.advance(100 + below(2000), 500)
    if (random() < 0.5) await stage.settleOnly(...here().filter(() => random() < 0.5))
    assert.ok(crowd.added.length <= USES, `${crowd.added.length} were added`)
  }

  if (isOwnerAway) crowd.owner.resume()
  for (let more = 0; more < 4 && crowd.added.length < USES; more++) {
    await stage.advance(61_000, 61_000)
    await enter()
    for (const player of stage.players) {
      crowd.poll(
        player,
        pending().map(({ request }) => request),
      )
    }
    await stage.advance(10_000, 1000)
  }
  await enter()
  await stage.advance(5000, 1000)
  assert.deepEqual(crowd.failures, [])
  assert.equal(crowd.added.length, USES)
  for (const player of stage.players) {
    assert.equal(player.view, crowd.owner.view, player.name)
    assert.deepEqual(
      player.told('admitted').filter(({ beyond }) => beyond),
      [],
      player.name,
    )
    assert.equal(player.channel.listedInvites.count(invite.listed.id), USES, player.name)
  }
}

test(`8 members, 20 joiners, an invite of 5 uses, ${ROUNDS} rounds, seed ${SEED}`, { timeout: 3_600_000 }, async () => {
  for (let number = 0; number < ROUNDS; number++) {
    try {
      await round(SEED + number)
    } catch (cause) {
      throw new Error(`Round ${number}, seed ${SEED + number}: ${String(cause)}`, { cause })
    }
  }
})
