import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeRatchetTree } from 'ts-mls/ratchetTree.js'
import { decryptGroupInfo, decryptGroupSecrets } from 'ts-mls/welcome.js'
import { makeKeyPackageRef } from 'ts-mls/keyPackage.js'
import { isTreeBounded } from '../../src/mls/ts-mls/bounds.ts'
import { faultOf } from '../../src/mls/ts-mls/tree.ts'
import { enter, type DecryptedWelcome, decryptWelcome } from '../../src/mls/ts-mls/join-group.ts'
import { hex } from '../mls/support.ts'
import { joinByLibrary, type PassiveClient, readWelcome, restart } from './passive-client.ts'
import { bytesOf, cryptoOf, decodeAll, readVectors } from './support.ts'

const INVALID = { code: 'invalid_welcome' }

/** What `decryptWelcome` would give if the tree were in the Welcome. */
async function openWithTree(vector: PassiveClient): Promise<DecryptedWelcome> {
  const { provider } = cryptoOf(vector)
  const { welcome, own } = readWelcome(vector)
  const ref = await makeKeyPackageRef(own.publicPackage, provider.hash)
  const initKey = await provider.hpke.importPrivateKey(bytesOf(vector.init_priv))
  const secrets = await decryptGroupSecrets(initKey, ref, welcome, provider.hpke)
  assert.ok(secrets)
  const info = await decryptGroupInfo(welcome, secrets.joinerSecret, new Uint8Array(provider.kdf.size), provider)
  assert.ok(info && vector.ratchet_tree !== null)
  return { secrets, info, tree: decodeAll(decodeRatchetTree, vector.ratchet_tree) }
}

for (const [at, vector] of (readVectors('passive-client-welcome') as readonly PassiveClient[]).entries()) {
  const crypto = cryptoOf(vector)
  const name = `Welcome ${at}, suite ${vector.cipher_suite}`

  if (vector.external_psks.length > 0) {
    test(`${name}: a PreSharedKey is refused in channels; the library joins with this cryptography`, async () => {
      const { welcome, own, key } = readWelcome(vector)
      await assert.rejects(decryptWelcome(crypto, welcome, own), INVALID)
      const { state } = restart(crypto, await joinByLibrary(vector), key)
      assert.equal(hex(state.keySchedule.epochAuthenticator), vector.initial_epoch_authenticator)
    })
    continue
  }

  test(`${name}, tree ${vector.ratchet_tree === null ? 'inside' : 'separate'}: opened and joined`, async () => {
    const { welcome, own, key } = readWelcome(vector)
    if (vector.ratchet_tree !== null)
      await assert.rejects(decryptWelcome(crypto, welcome, own), { ...INVALID, message: /no tree/ })
    const opened =
      vector.ratchet_tree === null ? await decryptWelcome(crypto, welcome, own) : await openWithTree(vector)
    assert.ok(isTreeBounded(opened.tree))
    assert.equal(await faultOf(crypto, opened.tree, opened.info.groupContext), undefined)
    const { state } = restart(crypto, await enter(crypto, opened, own), key)
    assert.equal(hex(state.keySchedule.epochAuthenticator), vector.initial_epoch_authenticator)
  })
}
