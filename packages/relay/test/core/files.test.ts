/** Files in the core: who may, who pays, and that every transfer is counted until it is over. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test from 'node:test'
import { toHex } from '@static/protocol'
import { Agent, refusal } from '@static/testkit/agent'
import type { FilesPlace, PartAnswer, PartAsk } from '../../src/ports.ts'
import { openMemoryRelay, type MemoryRelay, quiet } from '../support/memory-relay.ts'

const SIZE = 65_536n
const ACME = 'acme/live'

/** A channel with an owner and a guest, and the port of files in the hands of the test. */
class Scene {
  readonly world: MemoryRelay
  readonly owner: Agent
  readonly guest: Agent
  readonly channelId: Uint8Array
  #id = 0

  constructor(world: MemoryRelay, owner: Agent, guest: Agent, channelId: Uint8Array) {
    this.world = world
    this.owner = owner
    this.guest = guest
    this.channelId = channelId
  }

  static async open(world: MemoryRelay): Promise<Scene> {
    const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
    const channelId = await owner.createChannel('acme/x/y')
    const guest = await Agent.connect(world.transport.wire('protobuf'))
    await owner.commit(channelId, 0n, { adds: [guest.id] })
    await guest.request('resume', {})
    return new Scene(world, owner, guest, channelId)
  }

  /** Begins a file; gives its id and the token. */
  async begin(agent: Agent, size = SIZE): Promise<{ fileId: Uint8Array; token: string }> {
    const fileId = new Uint8Array(randomBytes(16))
    const { channelId } = this
    const { sessionToken } = await agent.request('beginFile', { channelId, fileId, size, visible: false })
    return { fileId, token: sessionToken }
  }

  /** Asks for a part; gives the number of the transfer, and the answer. */
  async ask(
    verb: PartAsk['verb'],
    fileId: Uint8Array,
    token: string,
    part = 0,
  ): Promise<{ id: number; answer: PartAnswer }> {
    const id = ++this.#id
    const ask = { verb, channel: toHex(this.channelId), file: toHex(fileId), part, token }
    return { id, answer: await this.world.driver.parts.ask(id, ask) }
  }

  /** Stores a part. */
  async put(fileId: Uint8Array, token: string, checksum = 7): Promise<PartAnswer> {
    const { id, answer } = await this.ask('put', fileId, token)
    if (answer.type !== 'go') return answer
    const stored = await this.world.driver.parts.store(id, checksum)
    this.world.driver.parts.over(id)
    return stored
  }

  /** Sends a message that names a file. */
  async send(agent: Agent, fileId: Uint8Array, counter = 1n): Promise<void> {
    const { channelId } = this
    const message = { channelId, slot: 1n, counter, ciphertext: randomBytes(64), messageId: randomBytes(16), fileId }
    await agent.request('sendMessage', message)
  }

  /** Messages that the owner's account has paid for. */
  async spent(): Promise<number> {
    await this.world.driver.drain()
    assert.equal(this.world.api.lent, 0)
    return this.world.api.spent.get(ACME) ?? 0
  }
}

function refused(answer: PartAnswer): string {
  return answer.type === 'refused' ? answer.refusal.refused : answer.type
}

test('a file costs its sender a message for each part and one for the message; fetching costs none', async (t) => {
  const scene = await Scene.open(await openMemoryRelay(t))
  const { owner, guest, channelId, world } = scene
  const { fileId, token } = await scene.begin(owner)
  await assert.rejects(scene.send(owner, fileId), refusal('file_incomplete'))
  assert.equal(refused(await scene.put(fileId, token)), 'recorded')
  // A repeat is free, and other bytes are refused.
  assert.equal(refused(await scene.put(fileId, token)), 'recorded')
  assert.equal(refused(await scene.put(fileId, token, 8)), 'invalid_request')
  await assert.rejects(guest.request('fileStatus', { channelId, fileId, visible: false }), refusal('file_expired'))
  await scene.send(owner, fileId)
  const status = await guest.request('fileStatus', { channelId, fileId, visible: false })
  assert.deepEqual([status.state?.size, status.state?.sent, [...(status.state?.parts ?? [])]], [SIZE, true, [1]])
  assert.equal(status.state?.expiresAtMs, BigInt(world.now() + 7 * 86_400_000))
  const { id, answer } = await scene.ask('get', fileId, status.sessionToken)
  assert.ok(answer.type === 'go' && answer.bytes === 65_564)
  world.driver.parts.over(id)
  await guest.request('dropFile', { channelId, fileId, everyone: false })
  await assert.rejects(owner.request('fileStatus', { channelId, fileId, visible: false }), refusal('file_expired'))
  await guest.request('dropFile', { channelId, fileId, everyone: false })
  assert.equal(await scene.spent(), 2)
})

test('the owner pays for the parts of a guest', async (t) => {
  const scene = await Scene.open(await openMemoryRelay(t))
  const { fileId, token } = await scene.begin(scene.guest)
  assert.equal(refused(await scene.put(fileId, token)), 'recorded')
  await scene.send(scene.guest, fileId)
  assert.equal(await scene.spent(), 2)
})

test('without quota no byte comes, and what comes while it ends is not recorded', async (t) => {
  const scene = await Scene.open(await openMemoryRelay(t))
  const { owner, world } = scene
  world.api.left.set(ACME, 1)
  const { fileId, token } = await scene.begin(owner)
  const first = await scene.ask('put', fileId, token)
  assert.equal(first.answer.type, 'go')
  await owner.send(scene.channelId, 1n, 1n)
  assert.equal(refused(await world.driver.parts.store(first.id, 7)), 'quota_exceeded')
  world.driver.parts.over(first.id)
  assert.equal(refused((await scene.ask('put', fileId, token)).answer), 'quota_exceeded')
  const { state } = await owner.request('fileStatus', { channelId: scene.channelId, fileId, visible: false })
  assert.deepEqual([...(state?.parts ?? [])], [0])
})

test('an agent has four transfers at a time, each until it is over, however it ends', async (t) => {
  const scene = await Scene.open(await openMemoryRelay(t))
  const { fileId, token } = await scene.begin(scene.owner)
  const guests = await scene.begin(scene.guest)
  const begun = await Promise.all(Array.from({ length: 6 }, () => scene.ask('put', fileId, token)))
  const going = begun.filter(({ answer }) => answer.type === 'go')
  assert.equal(going.length, 4)
  assert.equal(refused((await scene.ask('put', guests.fileId, guests.token)).answer), 'go')
  for (const { id } of going.slice(0, 2)) {
    scene.world.driver.parts.over(id)
    scene.world.driver.parts.over(id)
  }
  // A transfer that is refused takes no place.
  for (let at = 0; at < 9; at++)
    assert.equal(refused((await scene.ask('put', fileId, token, 9)).answer), 'invalid_request')
  const again = await Promise.all(Array.from({ length: 3 }, () => scene.ask('put', fileId, token)))
  assert.deepEqual(again.map(({ answer }) => refused(answer)).toSorted(), ['go', 'go', 'rate_limited'])
})

test('a token opens the files of its agent alone, and only for a while', async (t) => {
  const scene = await Scene.open(await openMemoryRelay(t))
  const { world } = scene
  const { fileId, token } = await scene.begin(scene.owner)
  const guests = await scene.begin(scene.guest)
  assert.equal(refused((await scene.ask('put', fileId, guests.token)).answer), 'file_expired')
  assert.equal(refused((await scene.ask('put', fileId, `${token}x`)).answer), 'auth_failed')
  assert.equal(refused((await scene.ask('put', fileId, '')).answer), 'auth_failed')
  await world.advance(301_000)
  const renewed = await scene.ask('put', fileId, token)
  assert.ok(renewed.answer.type === 'go' && renewed.answer.token !== undefined)
  await world.advance(300_000)
  assert.equal(refused((await scene.ask('put', fileId, token)).answer), 'auth_failed')
  assert.equal(refused((await scene.ask('put', fileId, renewed.answer.token)).answer), 'go')
  // The account is suspended meanwhile.
  world.api.suspended.add('acme')
  await world.advance(5000)
  await quiet()
  assert.equal(refused((await scene.ask('get', fileId, renewed.answer.token)).answer), 'account_suspended')
})

test('an agent fetches a file four times in an hour', async (t) => {
  const scene = await Scene.open(await openMemoryRelay(t))
  const { owner, guest, channelId, world } = scene
  const { fileId, token } = await scene.begin(owner)
  await scene.put(fileId, token)
  await scene.send(owner, fileId)
  const { sessionToken } = await guest.request('fileStatus', { channelId, fileId, visible: false })
  const fetch = async (): Promise<string> => {
    const { id, answer } = await scene.ask('get', fileId, sessionToken)
    world.driver.parts.over(id)
    return refused(answer)
  }
  for (let time = 0; time < 4; time++) assert.equal(await fetch(), 'go')
  assert.equal(await fetch(), 'rate_limited')
})

test('a relay without a place for files says so, and one with a full disk gives what it has', async (t) => {
  let place: FilesPlace = 'open'
  const scene = await Scene.open(await openMemoryRelay(t, { filesPlace: () => place }))
  const { owner, guest, channelId } = scene
  const { fileId, token } = await scene.begin(owner)
  await scene.put(fileId, token)
  await scene.send(owner, fileId)
  const more = await scene.begin(owner)
  place = 'full'
  await assert.rejects(scene.begin(owner), refusal('files_unavailable'))
  assert.equal(refused((await scene.ask('put', more.fileId, more.token)).answer), 'files_unavailable')
  const { sessionToken } = await guest.request('fileStatus', { channelId, fileId, visible: false })
  assert.equal(refused((await scene.ask('get', fileId, sessionToken)).answer), 'go')
  await owner.send(channelId, 1n, 2n)
  place = 'none'
  await assert.rejects(guest.request('fileStatus', { channelId, fileId, visible: false }), refusal('files_unavailable'))
  assert.equal(refused((await scene.ask('get', fileId, sessionToken)).answer), 'files_unavailable')
})

test('an agent whose traffic is shaped transfers only if it says that this is visible', async (t) => {
  const world = await openMemoryRelay(t)
  for (const profile of ['private', 'strict'] as const) {
    const traffic = { profile, cellsPerSecond: 0 }
    const jwt = world.api.token(`shaped ${profile}`)
    const agent = await Agent.connect(world.transport.wire('cbor'), { jwt, traffic })
    const channelId = await agent.createChannel('acme/x/y')
    const file = { channelId, fileId: randomBytes(16) }
    await assert.rejects(agent.request('beginFile', { ...file, size: SIZE, visible: false }), refusal('not_allowed'))
    await agent.request('beginFile', { ...file, size: SIZE, visible: true })
    await assert.rejects(agent.request('fileStatus', { ...file, visible: false }), refusal('not_allowed'))
    await agent.request('fileStatus', { ...file, visible: true })
  }
})

test('sizes that no padded file has, or that the relay does not take, are refused', async (t) => {
  const scene = await Scene.open(await openMemoryRelay(t, { settings: { files: { bytes: 1_048_576 } } }))
  const refuse = async (size: bigint, code: string): Promise<void> => {
    await assert.rejects(scene.begin(scene.owner, size), refusal(code))
  }
  for (const size of [0n, 1n, 65_535n, 65_537n, 90_000n]) await refuse(size, 'invalid_request')
  for (const size of [1_310_720n, 2n ** 40n]) await refuse(size, 'too_large')
  await refuse(2n ** 63n, 'invalid_request')
  await scene.begin(scene.owner, 1_048_576n)
})
