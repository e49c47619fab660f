import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ClientState } from 'ts-mls'
import { decryptSenderData } from 'ts-mls/privateMessage.js'
import { createSecretTree, ratchetToGeneration, type SecretTree } from 'ts-mls/secretTree.js'
import { NONCE_BYTES, seal, TAG_BYTES } from '../../src/mls/aead.ts'
import { concat } from '../../src/platform/bytes.ts'
import { CONTENT_TYPES, PRIVATE_MESSAGE } from '../../src/mls/framing.ts'
import { EpochCipher, nextSecret, type RatchetRow } from '../../src/mls/ratchet.ts'
import { CONFIG } from '../../src/mls/ts-mls/config.ts'
import { atGeneration } from '../../src/mls/ts-mls/handshake.ts'
import { type MlsCrypto } from '../../src/mls/ts-mls/key-package.ts'
import { decodeMessage } from '../../src/mls/ts-mls/message.ts'
import { hex } from '../mls/support.ts'
import { bytesOf, cryptoOf, type OfSuite, readVectors } from './support.ts'

interface SecretTreeVector extends OfSuite {
  readonly encryption_secret: string
  readonly sender_data: {
    readonly sender_data_secret: string
    readonly ciphertext: string
    readonly key: string
    readonly nonce: string
  }
  readonly leaves: readonly (readonly Generation[])[]
}

interface Generation {
  readonly generation: number
  readonly application_key: string
  readonly application_nonce: string
  readonly handshake_key: string
  readonly handshake_nonce: string
}

const EMPTY = new Uint8Array()
const NO_GUARD = new Uint8Array(4)
/** Leaf, generation, reuse guard. */
const SENDER_DATA_BYTES = 12

/** A cipher of epoch 0 of the group without a name. */
function cipherOf({ suite }: MlsCrypto, senderDataSecret: Uint8Array, leaf: number): EpochCipher {
  return new EpochCipher({
    suite,
    groupId: EMPTY,
    epoch: 0n,
    groupContext: EMPTY,
    senderDataSecret,
    leaf,
    sign: () => Buffer.alloc(64),
    verifier: () => undefined,
  })
}

function rowOf(tree: SecretTree, leaf: number, generation: number): RatchetRow {
  const start = tree[2 * leaf]?.application
  assert.ok(start?.generation === 0)
  let { secret } = start
  for (let step = 0; step < generation; step++) secret = nextSecret(secret, step)
  return { epoch: 0n, leaf, generation, secret }
}

for (const vector of readVectors('secret-tree') as readonly SecretTreeVector[]) {
  const crypto = cryptoOf(vector)
  const { provider, suite } = crypto
  const { leaves } = vector
  const senderDataSecret = bytesOf(vector.sender_data.sender_data_secret)

  test(`suite ${vector.cipher_suite}, leaves ${leaves.length}: the keys of application messages`, async () => {
    const tree = await createSecretTree(leaves.length, bytesOf(vector.encryption_secret), provider.kdf)
    for (const [leaf, generations] of leaves.entries()) {
      const cipher = cipherOf(crypto, senderDataSecret, leaf)
      for (const expected of generations) {
        const { ciphertext, messageKey } = cipher.seal(rowOf(tree, leaf, expected.generation), EMPTY)
        assert.equal(hex(messageKey.subarray(0, suite.keyBytes)), expected.application_key)
        // The nonce carries the reuse guard, which stands in the sender data.
        const { privateMessage } = decodeMessage('mls_private_message', ciphertext)!
        const sender = await decryptSenderData(privateMessage, senderDataSecret, provider)
        assert.deepEqual([sender?.leafIndex, sender?.generation], [leaf, expected.generation])
        const nonce = messageKey.slice(suite.keyBytes)
        sender?.reuseGuard.forEach((byte, at) => (nonce[at] = (nonce[at] ?? 0) ^ byte))
        assert.equal(hex(nonce), expected.application_nonce)
      }
    }
  })

  test(`suite ${vector.cipher_suite}, leaves ${leaves.length}: the keys of handshake messages`, async () => {
    const tree = await createSecretTree(leaves.length, bytesOf(vector.encryption_secret), provider.kdf)
    for (const [leafIndex, generations] of leaves.entries()) {
      for (const { generation, ...expected } of generations) {
        const sender = { leafIndex, generation, reuseGuard: NO_GUARD as Uint8Array & { length: 4 } }
        const { secretTree } = atGeneration({ secretTree: tree } as ClientState, sender)
        const made = await ratchetToGeneration(secretTree, sender, 'commit', CONFIG.keyRetentionConfig, provider)
        assert.equal(hex(made.key), expected.handshake_key)
        assert.equal(hex(made.nonce), expected.handshake_nonce)
      }
    }
  })

  test(`suite ${vector.cipher_suite}, leaves ${leaves.length}: the key of the sender data`, () => {
    const { key, nonce, ciphertext } = vector.sender_data
    const head = concat(new Uint8Array([0]), new Uint8Array(8), new Uint8Array([CONTENT_TYPES.application]))
    const sealed = new Uint8Array(SENDER_DATA_BYTES + TAG_BYTES)
    const content = bytesOf(ciphertext)
    assert.ok(content.length >= 0x40 && content.length < 0x4000)
    const open = (sealingKey: Uint8Array): void => {
      seal(suite, sealingKey, head, new Uint8Array(SENDER_DATA_BYTES), sealed, 0)
      const message = concat(
        PRIVATE_MESSAGE,
        head,
        new Uint8Array([0, sealed.length]),
        sealed,
        new Uint8Array([0x40 | (content.length >>> 8), content.length]),
        content,
      )
      cipherOf(crypto, senderDataSecret, 0).open(new Map(), message, { steps: 0 })
    }
    const expected = concat(bytesOf(key), bytesOf(nonce))
    assert.equal(expected.length, suite.keyBytes + NONCE_BYTES)
    // It opens the sender data and looks for the ratchet of leaf 0, which is not there.
    assert.throws(() => open(expected), { name: 'MlsError', message: /not a member/ })
    assert.throws(() => open(expected.map((byte) => byte ^ 1)), { name: 'MlsError', message: /cannot be decrypted/ })
  })
}
