/**
 * The crash points of a join: the owner, then the joiner, is killed before and after each of its calls to the database
 * and the network, from the request to the greeting, and started again on the same directory. The join always comes to
 * its end, with one membership and one use: of one use none is left, and of two one. The same where the owner admits
 * only agents that prove who runs them; then the owner knows in the end who that is. The same where a job takes the place
 * of the last one, and where the owner removes a member that proves nothing.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { ErrorSchema } from '@static/protocol/relay'
import { type CrashPoint, CrashingPorts } from '@static/testkit/crash/agent-ports'
import { randomNumbers, SEED } from '@static/testkit/random'
import { IS_WHOLE } from '@static/testkit/whole'
import type { Channel } from '../../src/public/channel.ts'
import type { AgentParts } from '../../src/agent/agent.ts'
import { StaticChannelManager } from '../../src/public/manager.ts'
import type { RelaySession } from '../../src/ports/index.ts'
import type { ChannelMember } from '../../src/public/received/member.ts'
import type { ShowOptions } from '../../src/public/options/invite-options.ts'
import { until } from '../crash/scene.ts'
import { CiService, Company, proofsOf } from '../support/company.ts'
import { type AgentOptions, code, event, NAME, text, TestSystem } from '../support/test-system.ts'

/** How many points of each side are tried; `STATIC_CRASH=all`: all. */
const SAMPLE = process.env['STATIC_CRASH'] === 'all' ? undefined : 5
/** One point (`12 before`), to look at a failure. */
const ONLY = process.env['STATIC_CRASH_ONLY']
const SETTINGS = {
  session: { pingMs: 5000, pongMs: 5000 },
  rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000, joinsPerMinute: 10_000 },
}
const SECONDS = 240
const DOMAIN = 'acme.example'
const random = randomNumbers(SEED)

/** Agents of which only the one that is killed is started again. */
interface Lane {
  readonly world: TestSystem
  readonly number: number
  readonly second: StaticChannelManager
  readonly third: StaticChannelManager
  /** Who runs them all. */
  readonly company: Company
  /** Who runs jobs. */
  readonly ci: CiService
}

/** Plays a round; gives the calls of the one that is killed, if it came to the end. */
type Play = (
  lane: Lane,
  who: 'owner' | 'joiner',
  point: CrashPoint | undefined,
) => Promise<readonly string[] | undefined>

let rounds = 0

/** One round in a channel of its own. */
async function round(
  lane: Lane,
  who: 'owner' | 'joiner',
  point: CrashPoint | undefined,
  isProven: boolean,
): ReturnType<Play> {
  const number = ++rounds
  const name = `acme/invite/round-${number}`
  const mortal = new CrashingPorts()
  const start = {
    owner: (options: AgentOptions = {}) => started(lane, `owner-${lane.number}`, options),
    joiner: (options: AgentOptions = {}) => started(lane, `joiner-${number}`, { account: null, ...options }),
  }
  const shown = isProven ? { show: DOMAIN } : {}
  let owner = await start.owner(who === 'owner' ? mortal.options : {})
  let joiner = await start.joiner(who === 'joiner' ? mortal.options : {})
  try {
    await owner.create(name)
    // Its own use may be the last one.
    const maxUses = point?.moment === 'before' ? 1 : 2
    const token = await owner.invite(name, { maxUses, ...(isProven && { require: DOMAIN }) })
    await lane.company.sign(`joiner-${number}`, joiner.client)
    mortal.mark(point)
    let joining = joiner.joinWithToken(name, token, SECONDS, shown)
    // One that is killed is told nothing that counts.
    joining.catch(() => {})
    await Promise.race([joining.catch(() => mortal.died), mortal.died])
    const calls = mortal.isDead ? undefined : [...mortal.calls]
    mortal.mark(undefined)
    if (mortal.isDead && who === 'owner') {
      await owner.close()
      owner = await start.owner()
    } else if (mortal.isDead) {
      await joiner.close()
      joiner = await start.joiner()
      joining = joiner.joinWithToken(name, token, SECONDS, shown)
    }
    await oneIsIn(lane, owner, await joining, { token, maxUses, shown })
    if (isProven) {
      const proof = (): string => JSON.stringify(memberOf(owner, name, joiner)?.proof)
      await until(() => memberOf(owner, name, joiner)?.proof?.state === 'checked', proof)
    }
    await owner.client.channel(name).delete()
    return calls
  } finally {
    await joiner.close()
    await owner.close()
  }
}

/** The joiner is in, once, by one use: those that are left let others in, and no one more. */
async function oneIsIn(
  lane: Lane,
  owner: StaticChannelManager,
  joined: Channel,
  { token, maxUses, shown }: { readonly token: string; readonly maxUses: number; readonly shown: ShowOptions },
): Promise<void> {
  const { name } = joined
  const { second, third } = lane
  const own = owner.client.channel(name)
  await joined.send('in')
  assert.equal(text((await owner.receive(name, SECONDS)) ?? assert.fail('nothing came')), 'in')
  await own.send('welcome')
  for await (const payload of joined.messages()) {
    assert.equal(text(payload), 'welcome')
    break
  }
  await agree([own, joined], 2)
  if (maxUses > 1) await agree([own, joined, await second.joinWithToken(name, token, SECONDS, shown)], 3)
  await assert.rejects(third.joinWithToken(name, token, SECONDS, shown), code('invite_used_up'))
}

/** A job joins in the place of the last one, which has another key and the same name. */
const replacement: Play = async (lane, who, point) => {
  const number = ++rounds
  const name = `acme/invite/round-${number}`
  const mortal = new CrashingPorts()
  const shown = { show: true } as const
  const startOwner = (options: AgentOptions = {}): Promise<StaticChannelManager> =>
    started(lane, `owner-${lane.number}`, options)
  const startJob = async (run: string, options: AgentOptions = {}): Promise<StaticChannelManager> => {
    const proofs = proofsOf(lane.world, run, { roots: [], proof: lane.ci.job('repo:acme/app:main') })
    const storeOptions = { identity: Buffer.from('runner') }
    return await lane.world.manager(run, { account: null, proofs, storeOptions, ...options })
  }
  let owner = await startOwner(who === 'owner' ? mortal.options : {})
  const last = await startJob(`last-${number}`)
  let job = await startJob(`job-${number}`, who === 'joiner' ? mortal.options : {})
  try {
    await owner.create(name)
    const require = { oidc: { issuer: lane.ci.issuer, subject: 'repo:acme/app:*' } }
    const token = await owner.invite(name, { maxUses: 2, require, replace: true })
    const isReplaced = removedFrom(await last.joinWithToken(name, token, SECONDS, shown))
    mortal.mark(point)
    let joining = job.joinWithToken(name, token, SECONDS, shown)
    joining.catch(() => {})
    await Promise.race([joining.catch(() => mortal.died), mortal.died])
    const calls = mortal.isDead ? undefined : [...mortal.calls]
    mortal.mark(undefined)
    if (mortal.isDead && who === 'owner') {
      await owner.close()
      owner = await startOwner()
    } else if (mortal.isDead) {
      await job.close()
      job = await startJob(`job-${number}`)
      joining = job.joinWithToken(name, token, SECONDS, shown)
    }
    const joined = await joining
    await joined.send('in')
    assert.equal(text((await owner.receive(name, SECONDS)) ?? assert.fail('nothing came')), 'in')
    await agree([owner.client.channel(name), joined], 2)
    assert.ok(memberOf(owner, name, job), 'another one is in')
    await isReplaced
    assert.deepEqual(
      owner.client.invites(name).map(({ uses }) => uses),
      [2],
    )
    await owner.client.channel(name).delete()
    return calls
  } finally {
    await Promise.all([job.close(), last.close()])
    await owner.close()
  }
}

/** The owner removes a member that it has added by hand, and that proves nothing. */
const removal: Play = async (lane, _who, point) => {
  const name = `acme/invite/round-${++rounds}`
  const mortal = new CrashingPorts()
  let ahead = 0
  const now = (): number => Date.now() + ahead
  let owner = await started(lane, `owner-${lane.number}`, { now, ...mortal.options })
  try {
    const own = await owner.create(name, { require: DOMAIN })
    const silent = lane.third.client
    const isOut = removedFrom(await silent.joinChannel(name, await own.addMember(await silent.generateKeyPackage())))
    mortal.mark(point)
    ahead += 11 * 60_000
    await Promise.race([isOut, mortal.died])
    const calls = mortal.isDead ? undefined : [...mortal.calls]
    mortal.mark(undefined)
    if (mortal.isDead) {
      await owner.close()
      owner = await started(lane, `owner-${lane.number}`, { now })
    }
    await isOut
    const channel = owner.client.channel(name)
    await until(
      () => channel.members().length === 1,
      () => 'The owner does not know that it is alone.',
    )
    await channel.delete()
    return calls
  } finally {
    await owner.close()
  }
}

/** Resolves when this agent was removed. */
async function removedFrom(channel: Channel): Promise<void> {
  await assert.rejects(Array.fromAsync(channel.messages()), code('removed'))
}

/** An agent that believes the company and the CI service. */
async function started(
  { world, company, ci }: Lane,
  name: string,
  options: AgentOptions,
): Promise<StaticChannelManager> {
  return await world.manager(name, { proofs: proofsOf(world, name, { roots: [company, ci] }), ...options })
}

function memberOf(
  owner: StaticChannelManager,
  name: string,
  { client }: StaticChannelManager,
): ChannelMember | undefined {
  return owner.client
    .channel(name)
    .members()
    .find(({ agentId }) => agentId === client.agentId)
}

/** They see the same so many members and the same log. */
async function agree(channels: readonly Channel[], count: number): Promise<void> {
  const views = (): string[] => channels.map((channel) => `${channel.members().length} ${channel.verify()}`)
  await until(
    () => new Set(views()).size === 1 && views()[0]?.startsWith(`${count} `) === true,
    () => `They should be ${count}: ${views().join(' / ')}`,
  )
}

function pointsOf(calls: number, most: number | undefined): CrashPoint[] {
  const one = ONLY && /^(\d+) (before|after)$/.exec(ONLY)
  if (one) return [{ call: Number(one[1]), moment: one[2] as CrashPoint['moment'] }]
  const numbers = Array.from({ length: calls }, (_, at) => at + 1)
  const all = numbers.flatMap((call) => [{ call, moment: 'before' } as const, { call, moment: 'after' } as const])
  const ranked = all.map((point, at) => ({ point, at, rank: random() })).sort((a, b) => a.rank - b.rank)
  const kept = ranked.slice(0, most).sort((a, b) => a.at - b.at)
  return kept.map(({ point }) => point)
}

test(`a join survives a crash of either side at any step, seed ${SEED}`, { timeout: 600_000 }, async (t) => {
  const world = await TestSystem.start(t, 'grpc', { settings: SETTINGS })
  const lanes: Lane[] = []
  const [company, ci] = [new Company(world, DOMAIN), new CiService(world, 'https://ci.example')]
  for (const number of [1, 2]) {
    const second = await world.manager(`second-${number}`, {
      account: null,
      chance: () => 0,
      proofs: proofsOf(world, `second-${number}`, { roots: [company] }),
    })
    const third = await world.manager(`third-${number}`, {
      account: null,
      proofs: proofsOf(world, `third-${number}`, { roots: [company] }),
    })
    await company.sign(`second-${number}`, second.client)
    await company.sign(`third-${number}`, third.client)
    lanes.push({ world, number, second, third, company, ci })
  }
  const joining =
    (isProven: boolean): Play =>
    (lane, who, point) =>
      round(lane, who, point, isProven)
  const sides = [
    ...(['owner', 'joiner'] as const).flatMap((who) => [
      { who, what: '', play: joining(false), most: SAMPLE },
      { who, what: ', with a proof', play: joining(true), most: SAMPLE && 3 },
      { who, what: ', in the place of the last job', play: replacement, most: SAMPLE && 2 },
    ]),
    // Each takes many seconds, in which the owner waits. In short, the simulation kills owners that remove.
    ...(IS_WHOLE || SAMPLE === undefined
      ? [{ who: 'owner', what: ', that removes who proves nothing', play: removal, most: SAMPLE } as const]
      : []),
  ]
  for (const { who, what, play, most } of sides) {
    await t.test(`${who}${what}`, async (t) => {
      const calls = (await play(lanes[0] ?? assert.fail(), who, undefined)) ?? []
      const points = pointsOf(calls.length, most)
      const left = [...points]
      const started = performance.now()
      const failures: unknown[] = []
      let killed = 0
      const run = async (lane: Lane): Promise<void> => {
        for (let point = left.shift(); point; point = left.shift()) {
          try {
            if (!(await play(lane, who, point))) killed++
          } catch (error) {
            failures.push(new Error(`killed ${point.moment} call ${point.call}: ${String(error)}`, { cause: error }))
          }
        }
      }
      await Promise.all(lanes.map(run))
      const seconds = ((performance.now() - started) / 1000).toFixed(1)
      t.diagnostic(`${calls.length} calls: ${calls.join(' ')}`)
      t.diagnostic(`${points.length} points in ${seconds} s, killed ${killed} times`)
      if (failures.length > 0) throw new AggregateError(failures, `${failures.length} points, seed ${SEED}`)
    })
  }
})

test('a joiner that dies before its hello is removed, and joins later with the same token and one use', async (t) => {
  let ahead = 0
  const now = (): number => Date.now() + ahead
  const world = await TestSystem.start(t, 'grpc', { settings: SETTINGS })
  const owner = await world.manager('owner', { now })
  const own = await owner.create(NAME)
  const token = await owner.invite(NAME)
  const mortal = new CrashingPorts()
  let joiner = await world.manager('joiner', { account: null, now, traffic: 'off', ...mortal.options })
  const added = event(owner.client, 'members_changed', ({ added: agents }) => agents.length === 1)
  // Its request is out. Without cover, which would be a call too.
  mortal.mark({ call: 3, moment: 'after' })
  joiner.joinWithToken(NAME, token, SECONDS).catch(() => {})
  await mortal.died
  await added
  await joiner.close()
  const removed = event(owner.client, 'members_changed', ({ removed: agents }) => agents.length === 1)
  ahead += 75_000
  await removed
  joiner = await world.manager('joiner', { account: null, now })
  const joined = await joiner.joinWithToken(NAME, token, SECONDS)
  await agree([own, joined], 2)
  const late = await world.manager('late', { account: null, now })
  await assert.rejects(late.joinWithToken(NAME, token, SECONDS), code('invite_used_up'))
})

test('a relay that does not take back a use costs that use, and keeps no one else out', async (t) => {
  let ahead = 0
  const now = (): number => Date.now() + ahead
  const world = await TestSystem.start(t, 'grpc', { settings: SETTINGS })
  const parts = await world.parts('owner', { now })
  const known = new Set<string>()
  await using owner = await StaticChannelManager.start({ ...parts, connect: refusingAgain(parts, known) }, 'localhost')
  const own = await owner.create(NAME)
  const token = await owner.invite(NAME)
  const mortal = new CrashingPorts()
  const silent = await world.manager('silent', { account: null, now, traffic: 'off', ...mortal.options })
  const added = event(owner.client, 'members_changed', ({ added: agents }) => agents.length === 1)
  mortal.mark({ call: 3, moment: 'after' })
  silent.joinWithToken(NAME, token, SECONDS).catch(() => {})
  await added
  const removed = event(owner.client, 'members_changed', ({ removed: agents }) => agents.length === 1)
  ahead += 75_000
  await removed
  const joiner = await world.manager('joiner', { account: null, now })
  await assert.rejects(joiner.joinWithToken(NAME, token, SECONDS), code('invite_used_up'))
  await agree([own, await joiner.joinWithToken(NAME, await owner.invite(NAME), SECONDS)], 2)
})

/** A session to a relay that knows an invite and does not want to hear of it again. */
function refusingAgain(parts: AgentParts, known: Set<string>): AgentParts['connect'] {
  return (...args) => {
    const { session, ready } = parts.connect(...args)
    const request: RelaySession['request'] = (body, done) => {
      const id = body.case === 'registerInvite' ? Buffer.from(body.value.inviteId).toString('hex') : ''
      if (!known.has(id)) session.request(body, done)
      else queueMicrotask(() => done({ type: 'refused', error: create(ErrorSchema, { code: 'invalid_request' }) }))
      if (id !== '') known.add(id)
    }
    return { session: { ...bound(session), request }, ready }
  }
}

function bound(session: RelaySession): RelaySession {
  return {
    request: (body, done) => session.request(body, done),
    ack: (positions) => session.ack(positions),
    hold: () => session.hold(),
    release: () => session.release(),
    close: () => session.close(),
  }
}
