import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verifyGroupInfoConfirmationTag, verifyGroupInfoSignature } from 'ts-mls/groupInfo.js'
import { makeKeyPackageRef } from 'ts-mls/keyPackage.js'
import { decryptGroupInfo, decryptGroupSecrets } from 'ts-mls/welcome.js'
import { decodeMessage } from '../../src/mls/ts-mls/message.ts'
import { decryptWelcome } from '../../src/mls/ts-mls/join-group.ts'
import { bytesOf, cryptoOf, type OfSuite, readVectors } from './support.ts'

interface WelcomeVector extends OfSuite {
  readonly init_priv: string
  readonly key_package: string
  readonly signer_pub: string
  readonly welcome: string
}

for (const vector of readVectors('welcome') as readonly WelcomeVector[]) {
  test(`suite ${vector.cipher_suite}: the GroupInfo in a Welcome, its signature and its confirmation tag`, async () => {
    const crypto = cryptoOf(vector)
    const { provider } = crypto
    const publicPackage = decodeMessage('mls_key_package', bytesOf(vector.key_package))?.keyPackage
    const welcome = decodeMessage('mls_welcome', bytesOf(vector.welcome))?.welcome
    assert.ok(publicPackage && welcome)
    const initPrivateKey = bytesOf(vector.init_priv)
    const ref = await makeKeyPackageRef(publicPackage, provider.hash)
    const initKey = await provider.hpke.importPrivateKey(initPrivateKey)
    const secrets = await decryptGroupSecrets(initKey, ref, welcome, provider.hpke)
    assert.ok(secrets)
    const noPsk = new Uint8Array(provider.kdf.size)
    const info = await decryptGroupInfo(welcome, secrets.joinerSecret, noPsk, provider)
    assert.ok(info)
    assert.ok(await verifyGroupInfoSignature(info, bytesOf(vector.signer_pub), provider.signature))
    assert.ok(await verifyGroupInfoConfirmationTag(info, secrets.joinerSecret, noPsk, provider))

    // A channel's Welcome holds the tree; this one does not.
    const none = new Uint8Array()
    const own = { publicPackage, privatePackage: { initPrivateKey, hpkePrivateKey: none, signaturePrivateKey: none } }
    await assert.rejects(decryptWelcome(crypto, welcome, own), { code: 'invalid_welcome', message: /no tree/ })
  })
}
