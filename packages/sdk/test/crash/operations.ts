/** What an agent does when it is killed, how its program goes on after a restart, and what must hold then. */
import assert from 'node:assert/strict'
import { StaticError } from '@static/protocol'
import type { CrashPoint } from '@static/testkit/crash/agent-ports'
import type { Channel } from '../../src/public/channel.ts'
import { parseAgentId } from '../../src/public/fingerprint.ts'
import { take } from '../support/test-system.ts'
import type { Received, Report } from './child.ts'
import { reading, type Scene, until } from './scene.ts'

/** An operation of the table. */
export interface Operation {
  readonly name: string
  readonly role: 'owner' | 'guest'
  round(scene: Scene, crashAt: CrashPoint | undefined): Promise<Report>
}

const numbered = (word: string, count: number): string[] => Array.from({ length: count }, (_, at) => `${word} ${at}`)
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

async function create(scene: Scene, crashAt: CrashPoint | undefined): Promise<Report> {
  const report = await scene.crash({ type: 'create' }, crashAt)
  const client = await scene.start()
  const channel = await client.createChannel(scene.channel)
  const welcome = await channel.addMember(await scene.peer.generateKeyPackage())
  const peers = await scene.peer.joinChannel(scene.channel, welcome)
  await scene.goesOn(reading(channel), reading(peers))
  await scene.end(channel)
  return report
}

/** The owner is alone: a second commit follows the add. */
async function add(scene: Scene, crashAt: CrashPoint | undefined): Promise<Report> {
  const owner = await scene.start()
  await owner.createChannel(scene.channel)
  await scene.stop()
  const keyPackage = await scene.peer.generateKeyPackage()
  const report = await scene.crash({ type: 'add', keyPackage: hex(keyPackage) }, crashAt)
  const client = await scene.start()
  const channel = client.channel(scene.channel)
  const welcome = report.welcome ? Buffer.from(report.welcome, 'hex') : await addAgain(scene, channel, keyPackage)
  const peers = welcome ? await scene.peer.joinChannel(scene.channel, welcome) : await accepted(scene)
  await scene.goesOn(reading(channel), reading(peers))
  await scene.end(channel)
  return report
}

/** The Welcome; undefined when the add was done before, and the relay delivers it. */
async function addAgain(scene: Scene, channel: Channel, keyPackage: Uint8Array): Promise<Uint8Array | undefined> {
  try {
    return await channel.addMember(keyPackage)
  } catch (error) {
    if (!channel.members().some(({ agentId }) => agentId === scene.peer.agentId)) throw error
    return undefined
  }
}

async function accepted({ peer, channel }: Scene): Promise<Channel> {
  for await (const offer of peer.joins()) if (offer.name === channel) return await offer.accept()
  throw new Error('Nothing was offered.')
}

async function join(scene: Scene, crashAt: CrashPoint | undefined): Promise<Report> {
  const joiner = await scene.start()
  const keyPackage = await joiner.generateKeyPackage()
  await scene.stop()
  const peers = await scene.peer.createChannel(scene.channel)
  const welcome = await peers.addMember(keyPackage)
  const texts = numbered('early', 3)
  for (const text of texts) await peers.send(text)
  const report = await scene.crash({ type: 'join', welcome: hex(welcome) }, crashAt)
  const client = await scene.start()
  const channel = await client.joinChannel(scene.channel, welcome)
  const agent = reading(channel)
  await scene.goesOn(agent, reading(peers))
  assert.deepEqual(agent.reader.texts, [...texts, 'last of the peer'])
  await scene.end(peers)
  return report
}

/** The peer has committed, which the agent does not hear before it has sent: all is encrypted anew. */
async function send(scene: Scene, crashAt: CrashPoint | undefined): Promise<Report> {
  const peers = await scene.withMember()
  const texts = numbered('message', 10)
  const report = await scene.crash({ type: 'send', texts }, crashAt, { deaf: true, meanwhile: () => peers.rotate() })
  const client = await scene.start()
  const channel = client.channel(scene.channel)
  const again = texts.filter((text) => !report.confirmed.includes(text)).map((text) => `${text} again`)
  await Promise.all(again.map((text) => channel.send(text)))
  const peer = reading(peers)
  await scene.goesOn(reading(channel), peer)
  const arrived = peer.reader.texts.filter((text) => texts.includes(text))
  // In order, each at most once, and all that were confirmed.
  assert.deepEqual(
    arrived,
    texts.filter((text) => arrived.includes(text)),
  )
  for (const text of report.confirmed) assert.ok(arrived.includes(text), `${text} was confirmed and did not arrive`)
  assert.deepEqual(peer.reader.texts, [...arrived, ...again, 'last of the agent'])
  await scene.end(peers)
  return report
}

/** Some wait when it begins to read, some come while it reads, with a commit among them. */
async function receive(scene: Scene, crashAt: CrashPoint | undefined): Promise<Report> {
  const peers = await scene.withMember()
  const texts = numbered('message', 14)
  for (const text of texts.slice(0, 3)) await peers.send(text)
  let rest: Promise<unknown> | undefined
  const report = await scene.crash({ type: 'receive', count: texts.length }, crashAt, {
    meanwhile: async () => {
      await Promise.all(texts.slice(3, 8).map((text) => peers.send(text)))
      rest = (async () => {
        await peers.rotate()
        for (const text of texts.slice(8)) await peers.send(text)
      })()
    },
  })
  await rest
  const client = await scene.start()
  const agent = reading(client.channel(scene.channel))
  await scene.goesOn(agent, reading(peers))
  checkReceived(texts, report.received, agent.reader.received.slice(0, -1))
  await scene.end(peers)
  return report
}

/** Before the crash a beginning, after it the rest; what comes twice is marked and has the same id. */
function checkReceived(texts: readonly string[], before: readonly Received[], after: readonly Received[]): void {
  assert.deepEqual(
    before.map(({ text }) => text),
    texts.slice(0, before.length),
  )
  assert.deepEqual(
    after.map(({ text }) => text),
    texts.slice(texts.length - after.length),
  )
  assert.ok(before.length + after.length >= texts.length, 'Something was lost.')
  for (const { text, messageId, redelivered } of after) {
    const given = before.find((received) => received.text === text)
    if (!given) continue
    assert.ok(redelivered, `${text} came again without a mark`)
    assert.equal(messageId, given.messageId, `${text} came again under another id`)
  }
}

async function commit(scene: Scene, crashAt: CrashPoint | undefined, loses: boolean): Promise<Report> {
  const peers = await scene.withMember()
  const report = await scene.crash({ type: 'rotate' }, crashAt, {
    deaf: loses,
    meanwhile: () => (loses ? peers.rotate() : Promise.resolve()),
  })
  const client = await scene.start()
  const channel = client.channel(scene.channel)
  if (!report.done) await channel.rotate()
  await scene.goesOn(reading(channel), reading(peers))
  await scene.end(peers)
  return report
}

async function remove(scene: Scene, crashAt: CrashPoint | undefined): Promise<Report> {
  const { peer } = scene
  const owner = await scene.start()
  const [, before] = await scene.world.channel(owner, [peer], scene.channel)
  const removed = reading(before!)
  await scene.stop()
  const report = await scene.crash({ type: 'remove', member: peer.agentId }, crashAt)
  const client = await scene.start()
  const channel = client.channel(scene.channel)
  if (!report.done) await channel.removeMember(peer.agentId).catch(unless('not_found'))
  const error = await removed.reader.ended
  assert.ok(error instanceof StaticError && error.code === 'removed', String(error))
  await until(
    () => channel.members().length === 1,
    () => 'The agent has not followed its own commit.',
  )
  scene.expected(/^peer: channel_failed removed/)
  const welcome = await channel.addMember(await peer.generateKeyPackage())
  const back = await peer.joinChannel(scene.channel, welcome)
  await scene.goesOn(reading(channel), reading(back))
  await scene.end(channel)
  return report
}

async function leave(scene: Scene, crashAt: CrashPoint | undefined): Promise<Report> {
  const peers = await scene.withMember()
  const report = await scene.crash({ type: 'leave' }, crashAt)
  const client = await scene.start()
  if (!report.done) await leaveAgain(() => client.channel(scene.channel))
  await until(
    () => peers.members().length === 1,
    () => 'The one that has left was not removed.',
  )
  // It can come back.
  const welcome = await peers.addMember(await client.generateKeyPackage())
  const channel = await client.joinChannel(scene.channel, welcome)
  await scene.goesOn(reading(channel), reading(peers))
  await scene.end(peers)
  return report
}

async function leaveAgain(open: () => Channel): Promise<void> {
  try {
    await open().leave()
  } catch (error) {
    unless('not_found')(error)
  }
}

function unless(code: string): (error: unknown) => void {
  return (error) => {
    if (!(error instanceof StaticError && error.code === code)) throw error
  }
}

/** The agent offers its channel to the peer, which takes it over. */
async function transfer(scene: Scene, crashAt: CrashPoint | undefined): Promise<Report> {
  const { peer } = scene
  const [own, peers] = await scene.world.channel(await scene.start(), [peer], scene.channel)
  assert.ok(own && peers)
  // Only an agent that has acted for an account can be offered a channel.
  await peers.send('first')
  assert.deepEqual(await take(own, 1), ['first'])
  await scene.stop()
  const report = await scene.crash({ type: 'transfer', member: peer.agentId }, crashAt)
  const client = await scene.start()
  const channel = client.channel(scene.channel)
  if (!report.done) await channel.transfer(peer.agentId)
  await until(
    () => peers.standby?.offered === true,
    () => 'The peer was not offered the channel.',
  )
  await peers.takeOver()
  await ownedBy(peer.agentId, channel, peers)
  await scene.goesOn(reading(channel), reading(peers))
  await scene.end(peers)
  return report
}

/** The agent takes the peer's channel over, as its standby; `loses`: after a commit that it has not heard of. */
async function takeOver(scene: Scene, crashAt: CrashPoint | undefined, loses: boolean): Promise<Report> {
  const peers = await scene.withMember()
  const standby = await scene.start()
  const named = standby.channel(scene.channel)
  await named.send('here')
  await peers.setStandby(standby.agentId)
  await until(
    () => named.standby?.agentId === standby.agentId,
    () => 'The agent has not heard that it is the standby.',
  )
  await scene.stop()
  const report = await scene.crash({ type: 'takeOver' }, crashAt, {
    deaf: loses,
    meanwhile: () => (loses ? peers.rotate() : Promise.resolve()),
  })
  const client = await scene.start()
  const channel = client.channel(scene.channel)
  if (!report.done) await channel.takeOver()
  await ownedBy(client.agentId, channel, peers)
  await scene.goesOn(reading(channel), reading(peers))
  // The relay's books name the new owner as well: only the account that pays may delete the channel.
  await scene.end(channel)
  return report
}

/** Waits until everyone names this owner, and no standby. */
async function ownedBy(agentId: string, ...channels: readonly Channel[]): Promise<void> {
  await until(
    () => channels.every((channel) => parseAgentId(channel.owner) === agentId && channel.standby === undefined),
    () =>
      `Not owned by ${agentId}: ${channels.map(({ owner, standby }) => `${owner} ${standby?.agentId}`).join(' / ')}`,
  )
}

/** The table. */
export const OPERATIONS: readonly Operation[] = [
  { name: 'create a channel', role: 'owner', round: create },
  { name: 'add a member', role: 'owner', round: add },
  { name: 'join by a Welcome', role: 'guest', round: join },
  { name: 'send while another commits', role: 'guest', round: send },
  { name: 'receive', role: 'guest', round: receive },
  { name: 'commit and win', role: 'guest', round: (scene, crashAt) => commit(scene, crashAt, false) },
  { name: 'commit and lose', role: 'guest', round: (scene, crashAt) => commit(scene, crashAt, true) },
  { name: 'remove a member', role: 'owner', round: remove },
  { name: 'leave', role: 'guest', round: leave },
  { name: 'transfer a channel', role: 'owner', round: transfer },
  { name: 'take over at once', role: 'owner', round: (scene, crashAt) => takeOver(scene, crashAt, false) },
  { name: 'take over late', role: 'owner', round: (scene, crashAt) => takeOver(scene, crashAt, true) },
]
