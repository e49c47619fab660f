import assert from 'node:assert/strict'
import { test } from 'node:test'
import { followCommit } from '../../src/mls/ts-mls/commit.ts'
import { type Followed, followAll, joinByLibrary, type PassiveClient, readWelcome, restart } from './passive-client.ts'
import { bytesOf, cryptoOf, readVectors } from './support.ts'

const vectors = readVectors<PassiveClient>('passive-client-handling-commit')
const all: Followed[] = []

for (const [at, vector] of vectors.entries()) {
  test(`group ${at}, suite ${vector.cipher_suite}: every commit is sound, within bounds and followed`, async () => {
    const followed = await followAll(vector, await joinByLibrary(vector))
    all.push(...followed)
    for (const { sound, opened } of followed) assert.deepEqual([sound, opened], [true, 'commit'])
  })
}

test('no commit is refused for the id of its PreSharedKey', () => {
  const withPsk = all.filter(({ hasPsk }) => hasPsk)
  assert.equal(all.length, 52)
  assert.equal(withPsk.length, 12)
  assert.ok(withPsk.every(({ sound }) => sound))
})

test('a channel takes none of these commits as it is: they are PublicMessages', async () => {
  for (const vector of vectors) {
    const crypto = cryptoOf(vector)
    const { key } = readWelcome(vector)
    const group = restart(crypto, await joinByLibrary(vector), key)
    const declared = { declaration: { adds: [], removes: [], leaveNotices: [] }, declarer: new Uint8Array(32) }
    const [first] = vector.epochs
    assert.ok(first)
    assert.deepEqual(await followCommit(crypto, group, bytesOf(first.commit), declared), {
      kind: 'rejected',
      reason: 'not_a_commit',
      sender: undefined,
    })
  }
})
