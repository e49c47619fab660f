/** A relay that lies about proofs: nobody is taken for somebody else, and no member goes that has shown its own. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { fromHex, toHex } from '@static/protocol'
import type { Channel } from '../../src/public/channel.ts'
import type { StaticChannelManager } from '../../src/public/manager.ts'
import type { AgentId } from '../../src/ports/index.ts'
import type { Join } from '../support/lying-relay.ts'
import type { Entry, Lie, Room } from '../support/lying-room.ts'
import { goOn, LyingSystem } from '../support/lying-system.ts'
import { Office, OFFICE } from '../support/office.ts'
import { code, event, NAME } from '../support/test-system.ts'

const MINUTE = 60_000

/** A company, whose agents are alice, who owns the channel, bob and carol. */
class Scene {
  readonly world: LyingSystem
  readonly office = new Office()
  /** All clocks of agents are ahead by this. */
  skew = 0
  /** Whom the owner has put out, or not let in. */
  readonly lost: string[] = []

  constructor(t: TestContext) {
    this.world = LyingSystem.start(t)
  }

  async manager(name: string): Promise<StaticChannelManager> {
    const now = (): number => Date.now() + this.skew
    const proofs = (): ReturnType<Office['desk']> => this.office.desk(now)
    const manager = await this.world.manager(name, { now, chance: () => 0, proofs })
    this.office.employ(manager.client.agentId, name)
    return manager
  }

  /** Notes whom an owner refuses or puts out. */
  watch({ client }: StaticChannelManager): void {
    void (async () => {
      for await (const told of client.events()) {
        if (told.type === 'join_refused') this.lost.push(`refused: ${told.reason}`)
        if (told.type === 'member_unproven') this.lost.push(`unproven: ${told.member}`)
      }
    })()
  }

  /** Who the members are, as an agent sees it. */
  shown(channel: Channel): Record<AgentId, string> {
    return Object.fromEntries(
      channel.members().flatMap(({ agentId, proof }) => {
        assert.equal(proof && this.office.wrongAbout(agentId, proof), undefined)
        return proof?.state === 'checked' ? [[agentId, proof.subject]] : proof ? [[agentId, proof.state]] : []
      }),
    )
  }
}

// ---- What members show in the channel ----

/** Bob and carol, whom the owner adds. It demands proofs. */
async function added(t: TestContext): Promise<{
  readonly scene: Scene
  readonly room: Room
  readonly alice: StaticChannelManager
  readonly channel: Channel
  readonly ids: readonly [AgentId, AgentId]
  /** They join, and show their proofs. */
  readonly join: () => Promise<[Channel, Channel]>
  /** Bob is added again, and shows nothing. */
  readonly joinAgain: () => Promise<Channel>
}> {
  const scene = new Scene(t)
  const [alice, bob, carol] = [await scene.manager('alice'), await scene.manager('bob'), await scene.manager('carol')]
  scene.watch(alice)
  const channel = await alice.client.createChannel(NAME, { require: OFFICE })
  const members = [bob.client, carol.client] as const
  const welcomes = await channel.addMembers(await Promise.all(members.map((member) => member.generateKeyPackage())))
  const joinAt = async (at: 0 | 1): Promise<Channel> =>
    await members[at].joinChannel(NAME, welcomes[at]!, { show: OFFICE })
  return {
    scene,
    room: scene.world.relay.room(channel.id),
    alice,
    channel,
    ids: [bob.client.agentId, carol.client.agentId],
    join: async () => [await joinAt(0), await joinAt(1)],
    joinAgain: async () => {
      await bob.client.channel(NAME).leave()
      return await bob.client.joinChannel(NAME, await channel.addMember(await bob.client.generateKeyPackage()))
    },
  }
}

/** What an agent sends by itself: in these channels, its proof. */
function isOwnWord(sender: AgentId): (entry: Entry) => boolean {
  return (entry) => entry.case === 'deliverMessage' && entry.value.control && toHex(entry.value.sender) === sender
}

/** An entry as one of another sender. */
function from(sender: AgentId, entry: Entry): Entry {
  return { ...entry, value: { ...entry.value, sender: fromHex(sender) } } as Entry
}

async function checked({ client }: StaticChannelManager, ...members: readonly AgentId[]): Promise<void> {
  await Promise.all(members.map((id) => event(client, 'proof_checked', ({ member }) => member === id)))
}

test('proofs are delayed until their time is over: the owner looks for them first, and puts out only who has shown none', async (t) => {
  const { scene, room, alice, channel, ids, join } = await added(t)
  const { relay } = scene.world
  const telling = checked(alice, ...ids)
  room.view(alice.client.agentId).live = false
  const joined = await join()
  await relay.until(() => ids.every((id) => room.log.some(isOwnWord(id))))
  assert.deepEqual(scene.shown(channel), {})
  const going = event(alice.client, 'member_unproven').then(({ member }) => assert.fail(`${member} has to go`))
  scene.skew += 11 * MINUTE
  await Promise.race([telling, going])
  assert.deepEqual(Object.values(scene.shown(channel)), ['bob', 'carol'])
  const dave = await scene.manager('dave')
  await dave.client.joinChannel(NAME, await channel.addMember(await dave.client.generateKeyPackage()))
  const removing = event(alice.client, 'members_changed', ({ removed }) => removed.length > 0)
  scene.skew += 11 * MINUTE
  assert.deepEqual((await removing).removed, [dave.client.agentId])
  assert.deepEqual(scene.lost, [`unproven: ${dave.client.agentId}`])
  await goOn(channel, ...joined)
})

/** What the owner is shown of what bob and carol have shown. */
const CHANGES: readonly (readonly [string, (bob: AgentId, carol: AgentId) => Lie])[] = [
  ['are dropped', (bob) => (entry) => (isOwnWord(bob)(entry) ? [] : [entry])],
  ['come twice', (bob) => (entry) => (isOwnWord(bob)(entry) ? [entry, entry] : [entry])],
  ['come as those of another', (bob, carol) => (entry) => (isOwnWord(bob)(entry) ? [from(carol, entry)] : [entry])],
  [
    'are exchanged',
    (bob, carol) => (entry) =>
      isOwnWord(bob)(entry) ? [from(carol, entry)] : isOwnWord(carol)(entry) ? [from(bob, entry)] : [entry],
  ],
]

for (const [what, lie] of CHANGES) {
  test(`proofs of a member ${what}: its next message reveals it, nobody is taken for another, and nobody has to go`, async (t) => {
    const { scene, room, alice, channel, ids, join } = await added(t)
    const forking = event(alice.client, 'fork_detected')
    room.view(alice.client.agentId).lie = lie(...ids)
    const [bob] = await join()
    await scene.world.relay.until(() => ids.every((id) => room.log.some(isOwnWord(id))))
    await bob.send('I have shown it')
    await forking
    scene.shown(channel)
    assert.deepEqual(scene.lost, [])
    assert.equal(channel.members().length, 3)
  })
}

test('the proof of an earlier stay is shown to the owner once more: it counts for nobody, and the next messages reveal it', async (t) => {
  const { scene, room, alice, channel, ids, join, joinAgain } = await added(t)
  const [bob] = ids
  const telling = checked(alice, ...ids)
  const [, carol] = await join()
  await telling
  const old = room.log.filter(isOwnWord(bob))
  await channel.removeMember(bob)
  await joinAgain()
  const view = room.view(alice.client.agentId)
  const slot = BigInt(view.position.slot)
  for (const entry of old) view.show(entry, { ...entry, value: { ...entry.value, slot } } as Entry)
  const failing = event(alice.client, 'decryption_failure')
  scene.world.relay.deliver()
  assert.equal((await failing).sender, bob)
  await scene.world.relay.read(room, alice.client.agentId)
  assert.deepEqual(Object.values(scene.shown(channel)), ['carol'])
  const forking = event(alice.client, 'fork_detected')
  // The first comes after what all have seen.
  for (const words of ['I have not seen it', 'nor that']) await carol.send(words)
  await forking
  assert.deepEqual(Object.values(scene.shown(channel)), ['carol'])
  assert.deepEqual(scene.lost, [])
})

// ---- What joiners show in their requests ----

interface Asking {
  readonly scene: Scene
  readonly alice: StaticChannelManager
  readonly bob: StaticChannelManager
  readonly carol: StaticChannelManager
  readonly token: string
  /** Their requests, which the relay holds. */
  readonly joins: readonly [Join, Join]
  readonly joining: readonly Promise<Channel>[]
  readonly handOut: () => void
}

/** Bob and carol ask to join with one token, and the relay has not told alice. */
async function asking(t: TestContext): Promise<Asking> {
  const scene = new Scene(t)
  const { relay } = scene.world
  const [alice, bob, carol] = [await scene.manager('alice'), await scene.manager('bob'), await scene.manager('carol')]
  scene.watch(alice)
  await alice.create(NAME)
  const token = await alice.invite(NAME, { require: OFFICE, maxUses: 3 })
  const handOut = relay.handOut.bind(relay)
  relay.handOut = () => {}
  const joining = [bob, carol].map((joiner) => joiner.joinWithToken(NAME, token, 60, { show: OFFICE }))
  for (const promise of joining) promise.catch(() => {})
  await relay.until(() => relay.joins.length === 2)
  const of = ({ client }: StaticChannelManager): Join =>
    relay.joins.find(({ agentId }) => toHex(agentId) === client.agentId) ?? assert.fail()
  const joins = [of(bob), of(carol)] as const
  relay.joins.length = 0
  const back = (): void => {
    relay.handOut = handOut
    handOut()
  }
  return { scene, alice, bob, carol, token, joins, joining, handOut: back }
}

function uses({ alice }: Asking): number | undefined {
  return alice.invites(NAME)[0]?.uses
}

test('the requests of two joiners are exchanged: neither comes in as the other, and both do when the relay is honest', async (t) => {
  const place = await asking(t)
  const { scene, alice, token, joins, joining, handOut } = place
  const { relay } = scene.world
  const [bob, carol] = joins
  relay.joins.push({ ...bob, box: carol.box }, { ...carol, box: bob.box })
  handOut()
  for (const join of joining) await assert.rejects(join, code('invite_invalid'))
  const channel = alice.client.channel(NAME)
  assert.deepEqual([channel.members().length, uses(place)], [1, 0])
  for (const joiner of [place.bob, place.carol]) await joiner.joinWithToken(NAME, token, 60, { show: OFFICE })
  assert.deepEqual(Object.values(scene.shown(channel)).sort(), ['bob', 'carol'])
  assert.deepEqual(scene.lost, [])
})

test('a request with a proof comes three times: it is one join', async (t) => {
  const place = await asking(t)
  const { scene, alice, joins, joining, handOut } = place
  const [bob, carol] = joins
  scene.world.relay.joins.push(bob, bob, carol)
  handOut()
  const joined = await Promise.all(joining)
  scene.world.relay.joins.push(bob)
  scene.world.relay.handOut()
  const channel = alice.client.channel(NAME)
  await goOn(channel, ...joined)
  assert.deepEqual(Object.values(scene.shown(channel)).sort(), ['bob', 'carol'])
  assert.deepEqual([channel.members().length, uses(place)], [3, 2])
  assert.deepEqual(scene.lost, [])
})

test('a request with a proof comes again after its agent was removed: it does not come back by it', async (t) => {
  const place = await asking(t)
  const { scene, alice, joins, joining, handOut } = place
  const { relay } = scene.world
  const [bob] = joins
  relay.joins.push(bob)
  handOut()
  await joining[0]
  const channel = alice.client.channel(NAME)
  assert.deepEqual(Object.values(scene.shown(channel)), ['bob'])
  await channel.removeMember(place.bob.client.agentId)
  // With that, the invite is revoked.
  relay.invites.set(toHex(bob.inviteId), channel.id)
  relay.joins.push(bob)
  relay.handOut()
  const token = await alice.invite(NAME, { require: OFFICE })
  const joined = await place.carol.joinWithToken(NAME, token, 60, { show: OFFICE })
  await goOn(channel, joined)
  assert.deepEqual(Object.values(scene.shown(channel)), ['carol'])
  assert.equal(channel.members().length, 2)
  assert.equal(relay.joins.length, 0)
})
