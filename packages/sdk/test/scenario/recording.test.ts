/**
 * The whole life of a channel, recorded by someone who breaks X25519 one day (SPEC.md, 4.5). Every way into a channel is
 * taken: a single unsealed Welcome among them would open all later epochs.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { inviteKeys } from '../../src/admitting/keys.ts'
import { decodeToken } from '../../src/admitting/token.ts'
import type { Channel } from '../../src/public/channel.ts'
import { readsOn } from '../mls/attacker.ts'
import { LateListener } from '../crash/late-listener.ts'
import { Cutter } from '../support/cutter.ts'
import { Recorder } from '../support/recorder.ts'
import { code, NAME, take, TestSystem } from '../support/test-system.ts'

const RATES = { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 }

test('a recorder of the whole channel that breaks X25519 opens the Welcome of its founder, and reads nothing', async (t) => {
  const world = await TestSystem.start(t, 'grpc', { settings: { rates: RATES, retention: { memberAddsPerHour: 3 } } })
  const recorder = new Recorder()
  const { engine, transport } = recorder
  const late = new LateListener()
  const cutter = new Cutter()
  const said: string[] = []
  const say = async (channel: Channel): Promise<void> => {
    const words = `canary ${randomBytes(12).toString('hex')}`
    said.push(words)
    await channel.send(words)
  }
  /** The refs of the KeyPackages that were used, by the way in. */
  const ways = new Map<string, string>()
  const made = (way: string, ...known: readonly string[]): void => {
    const fresh = [...recorder.sealed].filter((ref) => ![...ways.keys(), ...known].includes(ref))
    assert.ok(fresh.length > 0, `nothing was sealed: ${way}`)
    for (const ref of fresh) ways.set(ref, way)
  }

  // Founding. Alice's network can be cut, and can be slow.
  const slow = {
    engine,
    transport: (inner: Parameters<typeof transport>[0]) => late.transport(cutter.wrap(transport(inner))),
  }
  const alice = await world.manager('alice', slow)
  let own = await alice.create(NAME)
  assert.deepEqual([...recorder.sealed], [])
  await say(own)

  // By a token that only the owner admits, and by one that members do, while the owner is away.
  const bob = await world.manager('bob', { account: 'bob', engine, transport })
  const token = recorder.note(await alice.invite(NAME))
  const second = await bob.joinWithToken(NAME, token)
  made('a token of the owner')
  await say(second)
  const shared = recorder.note(await alice.invite(NAME, { admit: 'members', maxUses: 3 }))
  await second.catchUp()
  await alice.close()
  const carol = await world.manager('carol', { account: null, engine, transport, chance: () => 0 })
  const third = await carol.joinWithToken(NAME, shared)
  const [, carolRef = ''] = recorder.sealed
  made('a token that a member admits')
  await say(third)

  // By bytes and by id: the Welcome goes through the relay, and to the application as well.
  const again = await world.agent('alice', slow)
  own = again.channel(NAME)
  const dave = await world.agent('dave', { account: null, engine, transport })
  const welcome = recorder.note(await own.addMember(recorder.note(await dave.generateKeyPackage())))
  const fourth = await dave.joinChannel(NAME, welcome)
  made('bytes')
  const erin = await world.agent('erin', { account: 'erin', engine, transport })
  const offers = erin.joins()
  const offered = offers.next()
  recorder.note(await own.addMember(erin.agentId))
  const fifth = await (await offered).value!.accept()
  made('an agent id')
  await say(fifth)

  // A batch that the relay refuses as a whole, so that it is made again in halves.
  const guests = await Promise.all(
    ['g1', 'g2', 'g3', 'g4'].map((name) => world.agent(name, { account: null, engine, transport })),
  )
  const batch = await Promise.all(guests.map((guest) => guest.generateKeyPackage()))
  await second.catchUp()
  await assert.rejects(second.addMembers(batch), code('rate_limited'))
  assert.ok(recorder.commits.some(({ request }) => request.welcomes.length === 4))
  made('a batch in halves')

  // A commit that loses its slot: it is made again, with another Welcome for the same KeyPackage.
  const before = recorder.sealed
  const frank = await world.agent('frank', { account: null, engine, transport })
  const forFrank = await frank.generateKeyPackage()
  await own.catchUp()
  late.stopListening()
  await second.rotate()
  late.listenAfterWrite()
  const sixth = await frank.joinChannel(NAME, recorder.note(await own.addMember(forFrank)))
  const [frankRef = ''] = [...recorder.sealed].filter((ref) => !before.has(ref))
  made('a commit that lost')
  assert.equal(recorder.sealedTo(frankRef), 2, 'it was sealed twice')
  await say(sixth)

  // A commit whose answer is lost with the connection: sent again after a restart, from the disk.
  const grace = await world.agent('grace', { account: null, engine, transport })
  const forGrace = await grace.generateKeyPackage()
  const welcomed = grace.joins()
  const lost = cutter.deafen()
  const adding = own.addMember(forGrace)
  adding.catch(() => {})
  await lost
  const closing = again.close()
  cutter.cut()
  await closing
  await assert.rejects(adding, code('closed'))
  const back = await world.agent('alice', slow)
  own = back.channel(NAME)
  const seventh = await (await welcomed.next()).value!.accept()
  made('a commit that was sent again')
  await say(seventh)

  // Members that leave or are removed, and come back.
  assert.deepEqual(await take(fourth, 3), said.slice(-3))
  await fourth.leave()
  await own.catchUp()
  const daveAgain = await dave.joinChannel(NAME, recorder.note(await own.addMember(await dave.generateKeyPackage())))
  made('a return by bytes')
  assert.deepEqual(await take(sixth, 1), said.slice(-1))
  await own.removeMember(frank.agentId)
  const frankAgain = await frank.joinChannel(NAME, recorder.note(await own.addMember(await frank.generateKeyPackage())))
  made('a return after a removal')
  await say(daveAgain)
  await say(frankAgain)

  // A new owner, and a joiner of that owner's.
  await own.transfer(bob.client.agentId)
  await second.catchUp()
  await second.takeOver()
  const heidi = await world.manager('heidi', { account: null, engine, transport })
  const eighth = await heidi.joinWithToken(NAME, recorder.note(await bob.invite(NAME)))
  made('a token of the next owner')
  await say(eighth)
  await say(own)
  await second.rotate()
  await say(second)
  for (const channel of [own, second, eighth]) await channel.catchUp()
  // All but the first, which was before, and two of its own.
  assert.equal((await take(second, said.length - 3)).length, 8)

  // Every agent that was added has a sealed Welcome, whatever way it took.
  assert.equal(new Set(ways.values()).size, 10)
  assert.ok(ways.size >= 13, `${ways.size} KeyPackages`)

  const breaks = await recorder.attack()
  const founders = [...recorder.broken.values()].filter(({ ref }) => !ways.has(ref)).map(({ ref }) => ref)
  assert.equal(breaks.length, 1, 'only the Welcome of the founder opens')
  assert.ok(founders.includes(breaks[0]!.ref))
  // It gives the members of the epoch before the channel was used. The first commit is read in it, but not followed.
  const [first] = breaks
  assert.deepEqual(await reading(recorder, first!.epoch, said), [])
  const { request } = recorder.commits[0]!
  for (const ciphertext of recorder.messages())
    assert.equal(await readsOn(first!.epoch.group, first!.key, request.commit, ciphertext), undefined)

  // The control: with the seed of one Welcome, all that follows is read, until its agent has made a commit itself. So the
  // attack can do what it says.
  const opened = await recorder.attackWithSeed(carolRef, inviteKeys(decodeToken(shared).secret))
  assert.ok(opened)
  assert.deepEqual((await reading(recorder, opened.epoch, said)).slice(0, 4), said.slice(2, 6))
  assert.ok(founders.every((ref) => !recorder.sealed.has(ref)))
  t.diagnostic(`${ways.size} sealed Welcomes: ${[...new Set(ways.values())].join(', ')}`)
})

/** Which of the words are read in an epoch and after it. */
async function reading(recorder: Recorder, epoch: Parameters<Recorder['read']>[0], said: string[]): Promise<string[]> {
  const read = [...(await recorder.read(epoch))].join('\n')
  return said.filter((words) => read.includes(words))
}
