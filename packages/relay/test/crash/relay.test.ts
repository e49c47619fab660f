/** kill -9 of a whole relay under load, again and again on one database: what it has answered is there, once, in order. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ENGINE_STEPS, type FailAt } from '@static/testkit/crash/store-steps'
import { Agent } from '@static/testkit/agent'
import { randomNumbers, SEED } from '@static/testkit/random'
import { type RelayChild, RelayHome } from '@static/testkit/relay/process'
import { grpcWire } from '@static/testkit/agent/wires'
import { IS_WHOLE } from '@static/testkit/whole'
import { type Bodies, hex, Member } from './member.ts'

/** More with STATIC_CRASH=all. */
const ROUNDS = process.env['STATIC_CRASH'] === 'all' ? 100 : IS_WHOLE ? 8 : 4
const SETTINGS = { rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 } }

test(`killed in ${ROUNDS} rounds, seed ${SEED}`, { timeout: 3_600_000 }, async (t) => {
  const random = randomNumbers(SEED)
  // The timers come by once a second, the other points with every batch, beginning with those that agents need to open.
  const failAts = Array.from({ length: ROUNDS }, (_, round): FailAt | undefined => {
    // In the other rounds it is killed at a moment of chance.
    const point = round % 2 === 1 ? ENGINE_STEPS[((round - 1) / 2) % ENGINE_STEPS.length] : undefined
    const rare = point === 'before_checkpoint' || point === 'in_sweep'
    return point && { point, count: rare ? 1 : 10 + Math.floor(random() * 60) }
  })
  // In the other rounds, after how many answers: early, late and between, so that enough is answered with any seed.
  const killAfters = failAts.map((_, round) => 1 + Math.floor(((Math.floor(round / 2) % 4) + random()) * 50))
  const home = await RelayHome.make()
  let relay: RelayChild = await home.start(SETTINGS)
  t.after(async () => {
    relay.kill()
    await relay.exited
    await home.remove()
  })
  const connect = (member: { key: Member['key'] }): Promise<Agent> =>
    Agent.connect(grpcWire({ port: relay.ports.grpc, ca: home.ca }), { key: member.key, jwt: home.api.token('acme') })

  const redial = async (): Promise<void> => {
    const fresh = await Promise.all(members.map(connect))
    await Promise.all(members.map((member, at) => member.resume(fresh[at] as Agent)))
  }

  let answers = 0
  let killAfter = Number.POSITIVE_INFINITY
  const counted = (): void => {
    if (++answers === killAfter) relay.kill()
  }
  const founder = await Agent.connect(grpcWire({ port: relay.ports.grpc, ca: home.ca }), {
    jwt: home.api.token('acme'),
  })
  const channel = await founder.createChannel('acme/test/crash')
  const bodies: Bodies = new Map()
  const members = ['alice', 'bob', 'carol'].map((name) => new Member(name, channel, bodies, random, counted))
  const adds = members.map(({ key }) => key.id)
  const sessions = await Promise.all(members.map(connect))
  for (const session of sessions) await session.request('resume', {})
  await founder.commit(channel, 0n, { adds })
  for (const [at, session] of sessions.entries()) {
    const { position } = await session.next('deliverWelcome')
    assert.ok(position)
    members[at]?.begin(position.index, position.hash)
    await members[at]?.resume(session)
  }
  founder.close()

  for (let round = 0; round < ROUNDS; round++) {
    const failAt = failAts[round]
    killAfter = failAt === undefined ? answers + killAfters[round]! : Number.POSITIVE_INFINITY
    const place = `round ${round}, seed ${SEED}, ${failAt ? `${failAt.point} ${failAt.count}` : `answer ${killAfter}`}`
    const told = (error: unknown): never => {
      throw new Error(place, { cause: error })
    }
    await Promise.all(members.map((member) => member.work(member.name !== 'carol'))).catch(told)
    assert.equal(await relay.exited, 'SIGKILL', `${place}: ${relay.errors()}`)
    assert.equal(relay.errors(), '', place)
    const begin = async (): Promise<void> => {
      relay = await home.start(SETTINGS, failAts[round + 1])
      await redial()
    }
    await begin().catch(async (error: unknown) => {
      // On a slow machine the next point may be passed before the members are back, or even before it is ready.
      if (failAts[round + 1] === undefined || error instanceof assert.AssertionError) told(error)
      assert.equal(await relay.exited, 'SIGKILL', place)
      relay = await home.start(SETTINGS)
      failAts[round + 1] = undefined
      await redial().catch(told)
    })
  }

  killAfter = Number.POSITIVE_INFINITY
  await Promise.all(members.map((member) => member.settle()))
  // An answer may be there before the entry is delivered to anybody.
  const indexes = members.flatMap(({ lastIndex, answered }) => [lastIndex, ...answered.values()])
  const last = indexes.reduce((most, index) => (index > most ? index : most), 0n)
  for (const member of members) {
    await member.until(last)
    assert.deepEqual(member.log, members[0]?.log, 'Members have seen different logs.')
    assert.equal(new Set(member.log.values()).size, member.log.size, 'Something is there twice.')
    for (const [id, index] of member.answered)
      assert.equal(member.log.get(index), id, `${id} is not at ${index} of ${last}`)
    // First in, first out: the messages of each sender stand in the order of their counters, all of them.
    const own = [...member.log.values()].filter(
      (id) => hex(bodies.get(id)?.sender ?? new Uint8Array()) === hex(member.key.id),
    )
    const messages = own.filter((id) => bodies.get(id)?.kind === 'message')
    assert.equal(BigInt(messages.length), member.sent)
    const { channels } = await member.agent.request('resume', { channelIds: [channel] })
    assert.equal(channels[0]?.lastCounter, member.sent)
    assert.equal(channels[0]?.lastIndex, last)
  }
  const repeated = members.reduce((sum, member) => sum + member.repeated, 0)
  t.diagnostic(
    `promise T1: relay, seed ${SEED}: ${answers} answers over ${ROUNDS} kills, ${repeated} requests sent again, 0 lost`,
  )
  t.diagnostic(`${last} entries`)
  assert.ok(answers > 25 * ROUNDS && repeated > ROUNDS / 2, `${answers} answers, ${repeated} requests sent again`)
  for (const { agent } of members) agent.close()
})
