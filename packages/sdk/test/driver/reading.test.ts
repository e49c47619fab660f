import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DriverMessage } from '../../src/driver/pipe-protocol.ts'
import { Reading } from '../../src/driver/reading.ts'
import { NAME, TestSystem } from '../support/test-system.ts'

/** Hears what a reading tells, one after the other. */
class Ear {
  readonly told: { readonly told: DriverMessage; readonly bytes: string }[] = []
  #count = 0
  #reached = Promise.withResolvers<void>()

  readonly tell = (told: DriverMessage, bytes: Uint8Array = new Uint8Array()): void => {
    this.told.push({ told, bytes: Buffer.from(bytes).toString() })
    if (this.told.length === this.#count) this.#reached.resolve()
  }

  /** What was told, when it is so much. */
  async hears(count: number): Promise<readonly string[]> {
    this.#count = count
    this.#reached = Promise.withResolvers()
    if (this.told.length < count) await this.#reached.promise
    return this.told.map(({ told, bytes }) => ('event' in told && told.event === 'payload' ? bytes : 'ended'))
  }
}

test('as many messages are read ahead as requested, and delivered again unless settled', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const sender = await world.agent('sender')
  let receiver = await world.agent('receiver')
  const channel = await sender.createChannel(NAME)
  const joined = await receiver.joinChannel(NAME, await channel.addMember(await receiver.generateKeyPackage()))
  for (const text of ['1', '2', '3', '4', '5']) await channel.send(text)

  const ear = new Ear()
  const reading = new Reading(joined, 0, ear.tell)
  reading.more(2, 0)
  reading.more(2, 0)
  assert.deepEqual(await ear.hears(4), ['1', '2', '3', '4'])
  // In any order, and what is not there does no harm.
  reading.settle([3, 1, 77])
  reading.settle([1])
  reading.more(2, 1)
  assert.deepEqual(await ear.hears(5), ['1', '2', '3', '4', '5'])
  joined.close()
  assert.deepEqual((await ear.hears(6)).slice(5), ['ended'])
  assert.deepEqual(ear.told.at(-1)?.told, { event: 'ended', on: 0, run: 1 })

  await receiver.close()
  receiver = await world.agent('receiver')
  const again = new Ear()
  new Reading(receiver.channel(NAME), 0, again.tell).more(3, 0)
  assert.deepEqual(await again.hears(3), ['2', '4', '5'])
})

test('a handler gets what was read ahead and recalled, and what was asked for before', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const sender = await world.agent('sender')
  const receiver = await world.agent('receiver')
  const channel = await sender.createChannel(NAME)
  const joined = await receiver.joinChannel(NAME, await channel.addMember(await receiver.generateKeyPackage()))
  for (const text of ['1', '2', '3']) await channel.send(text)
  const ear = new Ear()
  const reading = new Reading(joined, 0, ear.tell)
  reading.more(5, 0)
  await ear.hears(3)
  reading.settle([1])
  reading.recall([2, 3], 1)
  const handled: string[] = []
  const handling = joined.handle((envelope) => {
    handled.push(`${envelope.text()} ${envelope.redelivered}`)
    if (handled.length === 3) joined.close()
  })
  await channel.send('4')
  await handling
  assert.deepEqual(handled, ['2 false', '3 false', '4 false'])
  assert.equal(ear.told.length, 3)
})

test('the error that ends a channel reaches every waiting caller', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const owner = await world.agent('owner')
  const member = await world.agent('member')
  const channel = await owner.createChannel(NAME)
  const joined = await member.joinChannel(NAME, await channel.addMember(await member.generateKeyPackage()))
  const ear = new Ear()
  new Reading(joined, 7, ear.tell).more(2, 3)
  await channel.removeMember(member.agentId)
  await ear.hears(2)
  for (const { told } of ear.told) {
    assert.ok('event' in told && told.event === 'ended')
    assert.deepEqual([told.on, told.run, told.error?.code], [7, 3, 'removed'])
  }
})
