import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { GroupContext } from 'ts-mls'
import { encodeGroupContext } from 'ts-mls/groupContext.js'
import { initializeEpoch, mlsExporter } from 'ts-mls/keySchedule.js'
import { hex } from '../mls/support.ts'
import { bytesOf, cryptoOf, type OfSuite, readVectors } from './support.ts'

interface Schedule extends OfSuite {
  readonly group_id: string
  readonly initial_init_secret: string
  readonly epochs: readonly EpochVector[]
}

interface EpochVector {
  readonly tree_hash: string
  readonly commit_secret: string
  readonly psk_secret: string
  readonly confirmed_transcript_hash: string
  readonly group_context: string
  readonly joiner_secret: string
  readonly welcome_secret: string
  readonly init_secret: string
  readonly sender_data_secret: string
  readonly encryption_secret: string
  readonly exporter_secret: string
  readonly epoch_authenticator: string
  readonly external_secret: string
  readonly confirmation_key: string
  readonly membership_key: string
  readonly resumption_psk: string
  readonly external_pub: string
  readonly exporter: {
    readonly label: string
    readonly context: string
    readonly length: number
    readonly secret: string
  }
}

for (const vector of readVectors('key-schedule') as readonly Schedule[]) {
  test(`suite ${vector.cipher_suite}: the secrets of ${vector.epochs.length} epochs`, async () => {
    const { provider, suite } = cryptoOf(vector)
    let initSecret = bytesOf(vector.initial_init_secret)
    for (const [epoch, expected] of vector.epochs.entries()) {
      const context: GroupContext = {
        version: 'mls10',
        cipherSuite: suite.name,
        groupId: bytesOf(vector.group_id),
        epoch: BigInt(epoch),
        treeHash: bytesOf(expected.tree_hash),
        confirmedTranscriptHash: bytesOf(expected.confirmed_transcript_hash),
        extensions: [],
      }
      assert.equal(hex(encodeGroupContext(context)), expected.group_context)
      const { keySchedule, ...secrets } = await initializeEpoch(
        initSecret,
        bytesOf(expected.commit_secret),
        context,
        bytesOf(expected.psk_secret),
        provider.kdf,
      )
      assert.equal(hex(secrets.joinerSecret), expected.joiner_secret)
      assert.equal(hex(secrets.welcomeSecret), expected.welcome_secret)
      assert.equal(hex(secrets.encryptionSecret), expected.encryption_secret)
      assert.equal(hex(keySchedule.initSecret), expected.init_secret)
      assert.equal(hex(keySchedule.senderDataSecret), expected.sender_data_secret)
      assert.equal(hex(keySchedule.exporterSecret), expected.exporter_secret)
      assert.equal(hex(keySchedule.epochAuthenticator), expected.epoch_authenticator)
      assert.equal(hex(keySchedule.externalSecret), expected.external_secret)
      assert.equal(hex(keySchedule.confirmationKey), expected.confirmation_key)
      assert.equal(hex(keySchedule.membershipKey), expected.membership_key)
      assert.equal(hex(keySchedule.resumptionPsk), expected.resumption_psk)
      const { publicKey } = await provider.hpke.deriveKeyPair(keySchedule.externalSecret)
      assert.equal(hex(await provider.hpke.exportPublicKey(publicKey)), expected.external_pub)
      const { label, length, ...exported } = expected.exporter
      assert.equal(
        hex(await mlsExporter(keySchedule.exporterSecret, label, bytesOf(exported.context), length, provider)),
        exported.secret,
      )
      initSecret = Uint8Array.from(keySchedule.initSecret)
    }
  })
}
