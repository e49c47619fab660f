import assert from 'node:assert/strict'
import { test } from 'node:test'
import { followCommit } from '../../src/mls/ts-mls/commit.ts'
import { type Followed, followAll, joinByLibrary, type PassiveClient, readWelcome, restart } from './passive-client.ts'
import { bytesOf, cryptoOf, readVectors } from './support.ts'

const vectors = readVectors('passive-client-handling-commit') as readonly PassiveClient[]
const runs = new Map<PassiveClient, Promise<readonly Followed[]>>()

/** Runs an entry once for all tests. */
function follow(vector: PassiveClient): Promise<readonly Followed[]> {
  let run = runs.get(vector)
  if (run === undefined) runs.set(vector, (run = joinByLibrary(vector).then((joined) => followAll(vector, joined))))
  return run
}

for (const [at, vector] of vectors.entries()) {
  test(`group ${at}, suite ${vector.cipher_suite}: every commit is valid, within bounds and followed`, async () => {
    for (const { sound, opened } of await follow(vector)) assert.deepEqual([sound, opened], [true, 'commit'])
  })
}

test('no commit is refused for the id of its PreSharedKey', async () => {
  const all = (await Promise.all(vectors.map(follow))).flat()
  const withPsk = all.filter(({ hasPsk }) => hasPsk)
  assert.deepEqual([all.length, withPsk.length], [52, 12])
  assert.ok(withPsk.every(({ sound }) => sound))
})

test('a channel accepts none of these commits as they are: they are PublicMessages', async () => {
  for (const vector of vectors) {
    const crypto = cryptoOf(vector)
    const { key } = readWelcome(vector)
    const group = restart(crypto, await joinByLibrary(vector), key)
    const declared = {
      declaration: { adds: [], removes: [], leaveNotices: [], vouches: [] },
      declarer: new Uint8Array(32),
    }
    const [first] = vector.epochs
    assert.ok(first)
    assert.deepEqual(await followCommit(crypto, group, bytesOf(first.commit), declared), {
      kind: 'rejected',
      reason: 'not_a_commit',
      sender: undefined,
    })
  }
})
