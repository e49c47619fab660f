/** Welcomes that the relay delivers: what is kept of them is limited before anything is done with it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { MAX_WELCOME_BYTES, type StaticError } from '@static/protocol'
import { type DeliverWelcome, DeliverWelcomeSchema } from '@static/protocol/relay'
import { IncomingWelcomes, MOST_INCOMING, MOST_INCOMING_BYTES } from '../../src/joining/incoming-welcomes.ts'
import { NAME } from '../support/test-system.ts'

const HUGE = 4_000_000

/** An agent whose Welcomes wait until they are let through. */
function scene(): {
  incoming: IncomingWelcomes
  waiting: DeliverWelcome[]
  acknowledged: number[]
  refused: { channel: string; error: StaticError }[]
  through: () => Promise<void>
} {
  const waiting: DeliverWelcome[] = []
  const acknowledged: number[] = []
  const refused: { channel: string; error: StaticError }[] = []
  let lock = Promise.withResolvers<void>()
  const welcomed = (welcome: DeliverWelcome): Promise<void> => {
    waiting.push(welcome)
    return lock.promise
  }
  const context = {
    deliveries: { acknowledge: (_id: string, index: number) => acknowledged.push(index) },
    invites: { welcomed },
    emit: (event: { channel: string; error: StaticError }) => refused.push(event),
  }
  const through = async (): Promise<void> => {
    waiting.length = 0
    lock.resolve()
    lock = Promise.withResolvers()
    await setImmediate()
  }
  const incoming = new IncomingWelcomes({ context } as never, 'anyone', () => assert.fail())
  return { incoming, waiting, acknowledged, refused, through }
}

/** A Welcome as it was received: its fields are parts of something larger. */
function delivered(
  length: number,
  change: Exclude<MessageInitShape<typeof DeliverWelcomeSchema>, DeliverWelcome> = {},
): DeliverWelcome {
  return create(DeliverWelcomeSchema, {
    channelId: new Uint8Array(16),
    name: NAME,
    sender: new Uint8Array(32),
    owner: new Uint8Array(32),
    welcome: { welcome: new Uint8Array(length + 1000).subarray(0, length), tag: new Uint8Array(32) },
    position: { index: 7n, hash: new Uint8Array(32), slot: 3n },
    ...change,
  })
}

for (const [what, length, limit] of [
  ['number of Welcomes that wait is', 0, MOST_INCOMING],
  ['bytes of Welcomes that wait are', 100_000, Math.floor(MOST_INCOMING_BYTES / 100_000)],
] as const) {
  test(`the ${what} limited; others are not acknowledged, and later ones are taken again`, async () => {
    const { incoming, waiting, acknowledged, refused, through } = scene()
    for (let round = 0; round < 2; round++) {
      for (let times = 0; times < MOST_INCOMING + 10; times++) incoming.receive(delivered(length))
      assert.equal(waiting.length, limit)
      await through()
    }
    assert.deepEqual([acknowledged, refused], [[], []])
  })
}

test('the copy kept of a Welcome retains no other received bytes, and none beyond its maximum length', () => {
  const { incoming, waiting } = scene()
  const long = new Uint8Array(HUGE)
  incoming.receive(delivered(100, { sender: long, owner: long }))
  const position = { index: 7n, hash: long, slot: 3n }
  incoming.receive(delivered(100, { welcome: { welcome: new Uint8Array(100), tag: long, inviteId: long }, position }))
  const [first, second] = waiting
  const views = (kept: DeliverWelcome | undefined): (Uint8Array | undefined)[] => {
    const { welcome, tag, inviteId } = kept?.welcome ?? {}
    return [kept?.channelId, kept?.sender, kept?.owner, kept?.position?.hash, welcome, tag, inviteId]
  }
  const bytes = (kept: DeliverWelcome | undefined): (number | undefined)[] =>
    views(kept).map((view) => view?.buffer.byteLength)
  assert.deepEqual(bytes(first), [16, 0, 0, 32, 100, 32, 0])
  assert.deepEqual(bytes(second), [16, 0, 0, 0, 100, 0, 0])
  assert.deepEqual([first?.name, first?.position?.index, first?.position?.slot], [NAME, 7n, 3n])
})

test('a Welcome that is too large, or has no valid name or id, is refused before anyone parses it', () => {
  const { incoming, waiting, acknowledged, refused } = scene()
  incoming.receive(delivered(MAX_WELCOME_BYTES + 1))
  incoming.receive(delivered(100, { name: 'x'.repeat(HUGE) }))
  // Nothing can be acknowledged.
  incoming.receive(delivered(100, { channelId: new Uint8Array(HUGE) }))
  assert.deepEqual(
    refused.map(({ channel, error }) => [channel, error.code]),
    [
      [NAME, 'invalid_welcome'],
      ['', 'invalid_welcome'],
      [NAME, 'invalid_welcome'],
    ],
  )
  assert.deepEqual(waiting, [])
  assert.deepEqual(acknowledged, [7, 7])
})
