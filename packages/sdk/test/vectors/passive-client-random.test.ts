import assert from 'node:assert/strict'
import { test } from 'node:test'
import { enter, decryptWelcome } from '../../src/mls/ts-mls/join-group.ts'
import { followAll, type PassiveClient, readWelcome } from './passive-client.ts'
import { cryptoOf, readVectors } from './support.ts'

for (const vector of readVectors('passive-client-random') as readonly PassiveClient[]) {
  test(`suite ${vector.cipher_suite}: ${vector.epochs.length} epochs of random changes are followed`, async () => {
    const crypto = cryptoOf(vector)
    const { welcome, own } = readWelcome(vector)
    const joined = await enter(crypto, await decryptWelcome(crypto, welcome, own), own)
    const followed = await followAll(vector, joined)
    assert.equal(followed.length, vector.epochs.length)
    for (const { sound, opened } of followed) assert.deepEqual([sound, opened], [true, 'commit'])
  })
}
