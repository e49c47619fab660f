/** What a channel keeps about files of others: as many as an honest relay has, for as long, and each for its sender. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ChannelFiles } from '../../src/files/channel-files.ts'
import type { AgentId, InboxRecord } from '../../src/ports/index.ts'
import { Stage } from '../support/stage.ts'

const DAY_MS = 24 * 3_600_000
const DIGESTS = new Uint8Array(32).fill(7)

function recordOf(index: number, sender: AgentId, receivedAt: number): InboxRecord {
  const bytes = new Uint8Array(16).fill(index)
  return {
    index,
    part: 0,
    messageId: bytes,
    sender,
    identity: bytes,
    epoch: 1,
    receivedAt,
    ciphertext: bytes,
    messageKey: bytes,
    attempts: 0,
  }
}

const fileOf = (index: number) => ({
  fileId: new Uint8Array(16).fill(index),
  secret: new Uint8Array(32).fill(index),
  size: index,
  name: `file ${index}`,
  type: '',
  text: '',
  digests: DIGESTS,
})

test('beyond 1,000 files, those of the sender with the most give way, oldest first', async () => {
  const stage = await Stage.start(['alice', 'bob', 'carol'])
  const { channel, journal } = stage.player('alice')
  const [bob, carol] = [stage.player('bob').agentId, stage.player('carol').agentId]
  // Bob's are the oldest, but only three.
  for (let index = 1; index <= 1100; index++)
    channel.files.arrive(recordOf(index, index <= 3 ? bob : carol, stage.now), fileOf(index))
  journal.flush()
  const kept = channel.files.list().map(({ index }) => index)
  assert.equal(kept.length, 1000)
  assert.deepEqual(kept.slice(0, 5), [1, 2, 3, 104, 105])
  assert.equal(kept.at(-1), 1100)
  // A file of the same id by another member is another file.
  channel.files.arrive(recordOf(1101, bob, stage.now), fileOf(1))
  journal.flush()
  assert.deepEqual(channel.files.get(1).sender, bob)
  assert.equal(channel.files.get(1101).fileId[0], 1)
  // The same after a restart.
  const [stored] = stage.player('alice').store.load().channels
  assert.deepEqual(
    stored?.files.map(({ index }) => index),
    channel.files.list().map(({ index }) => index),
  )
  assert.deepEqual(channel.files.digests(1101), DIGESTS)
  assert.throws(() => channel.files.get(4), { code: 'file_expired' })
})

test('a file that is saved loses its key at once, and its record when the relay knows', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const alice = stage.player('alice')
  const { channel, journal } = alice
  channel.files.arrive(recordOf(1, stage.player('bob').agentId, stage.now), fileOf(1))
  journal.flush()
  const finished = channel.files.finish(1)
  journal.flush()
  await finished
  const stored = (): readonly unknown[] => alice.store.load().channels[0]?.files ?? []
  const [kept] = alice.store.load().channels[0]?.files ?? []
  assert.deepEqual([kept?.secret.length, kept?.isDone, channel.files.list()], [0, true, []])
  const dropsOf = (): typeof alice.requests => alice.requests.filter(({ body }) => body.case === 'dropFile')
  assert.equal(dropsOf().length, 1)
  // Its answer is lost: the next session says it again.
  dropsOf()[0]?.done({ type: 'lost', error: { code: 'transport_error' } as never })
  channel.files.resumed()
  assert.equal(dropsOf().length, 2)
  dropsOf()[1]?.done({ type: 'answered', body: { case: 'dropFile', value: {} } as never })
  journal.flush()
  assert.deepEqual(stored(), [])
})

test('what the relay no longer has is forgotten, and it is asked only when a file is old', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const alice = stage.player('alice')
  const { channel, journal } = alice
  const bob = stage.player('bob').agentId
  channel.files.arrive(recordOf(1, bob, stage.now), fileOf(1))
  channel.files.arrive(recordOf(2, bob, stage.now), fileOf(2))
  const asked = (): typeof alice.requests => alice.requests.filter(({ body }) => body.case === 'fileStatus')
  channel.files.tick(stage.now + 6 * DAY_MS)
  assert.equal(asked().length, 0)
  channel.files.tick(stage.now + 7 * DAY_MS)
  // One at a time.
  channel.files.tick(stage.now + 7 * DAY_MS)
  assert.equal(asked().length, 1)
  const expiresAtMs = BigInt(stage.now + 30 * DAY_MS)
  asked()[0]?.done({ type: 'answered', body: { case: 'fileStatus', value: { state: { expiresAtMs } } } as never })
  channel.files.tick(stage.now + 7 * DAY_MS)
  asked()[1]?.done({ type: 'refused', error: { code: 'file_expired' } as never })
  channel.files.tick(stage.now + 29 * DAY_MS)
  assert.equal(asked().length, 2)
  journal.flush()
  assert.deepEqual(
    channel.files.list().map(({ index }) => index),
    [1],
  )
})

test('a file is not forgotten while a call saves it; one that is forgotten leaves nothing on disk', async () => {
  const stage = await Stage.start(['alice', 'bob'])
  const alice = stage.player('alice')
  const { channel, journal } = alice
  const discarded: unknown[] = []
  const disk = { discard: (...file: unknown[]) => Promise.resolve(discarded.push(file)) }
  const context = { journal, session: alice.session, now: () => alice.now(), files: { disk } as never }
  const files = new ChannelFiles(context, channel, { files: [], uploads: [] })
  const bob = stage.player('bob').agentId
  for (const index of [1, 2, 3]) files.arrive(recordOf(index, bob, stage.now), fileOf(index))
  files.update(1, { target: '/d/one', partFile: 'its number' })
  files.update(2, { target: '/d/two', partFile: 'another' })
  const asked = (): typeof alice.requests => alice.requests.filter(({ body }) => body.case === 'fileStatus')
  const saving = Promise.withResolvers<void>()
  files.tick(stage.now + 7 * DAY_MS)
  // The call begins before the answer.
  const busy = files.alone(1, () => saving.promise)
  asked()[0]?.done({ type: 'refused', error: { code: 'file_expired' } as never })
  assert.ok(files.has(1))
  files.tick(stage.now + 7 * DAY_MS)
  asked()[1]?.done({ type: 'refused', error: { code: 'file_expired' } as never })
  assert.deepEqual([files.has(2), discarded], [false, [['/d/two', 'another']]])
  saving.resolve()
  await busy
  await files.forget(1)
  assert.deepEqual(discarded, [
    ['/d/two', 'another'],
    ['/d/one', 'its number'],
  ])
})
