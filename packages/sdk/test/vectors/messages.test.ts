import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeMlsMessage, encodeMlsMessage } from 'ts-mls'
import { decodeCommit, encodeCommit } from 'ts-mls/commit.js'
import { decodeGroupSecrets, encodeGroupSecrets } from 'ts-mls/groupSecrets.js'
import {
  decodeAdd,
  decodeExternalInit,
  decodeGroupContextExtensions,
  decodePSK,
  decodeReinit,
  decodeRemove,
  decodeUpdate,
  encodeAdd,
  encodeExternalInit,
  encodeGroupContextExtensions,
  encodePSK,
  encodeReinit,
  encodeRemove,
  encodeUpdate,
} from 'ts-mls/proposal.js'
import { decodeRatchetTree, encodeRatchetTree } from 'ts-mls/ratchetTree.js'
import { CONTENT_TYPES, parsePrivateMessage } from '../../src/mls/framing.ts'
import { decodeMessage, encodeKeyPackage, encodeWelcome } from '../../src/mls/ts-mls/message.ts'
import { hex } from '../mls/support.ts'
import { bytesOf, decodeAll, readVectors } from './support.ts'

type Messages = Readonly<Record<Whole | keyof typeof PARTS | 'private_message', string>>

/** Fields that are MLSMessages, but no PrivateMessages. */
const WHOLE = [
  'mls_welcome',
  'mls_group_info',
  'mls_key_package',
  'public_message_application',
  'public_message_proposal',
  'public_message_commit',
] as const
type Whole = (typeof WHOLE)[number]

const again =
  <Value>(
    decode: (bytes: Uint8Array, at: number) => [Value, number] | undefined,
    encode: (value: Value) => Uint8Array,
  ) =>
  (bytes: string): string =>
    hex(encode(decodeAll(decode, bytes)))

/** The other fields: decoded and encoded again. */
const PARTS = {
  ratchet_tree: again(decodeRatchetTree, encodeRatchetTree),
  group_secrets: again(decodeGroupSecrets, encodeGroupSecrets),
  add_proposal: again(decodeAdd, encodeAdd),
  update_proposal: again(decodeUpdate, encodeUpdate),
  remove_proposal: again(decodeRemove, encodeRemove),
  pre_shared_key_proposal: again(decodePSK, encodePSK),
  re_init_proposal: again(decodeReinit, encodeReinit),
  external_init_proposal: again(decodeExternalInit, encodeExternalInit),
  group_context_extensions_proposal: again(decodeGroupContextExtensions, encodeGroupContextExtensions),
  commit: again(decodeCommit, encodeCommit),
} as const

const vectors = readVectors('messages') as readonly Messages[]

test('a PrivateMessage is split into the same parts as by the library', () => {
  const seen = new Set<number>()
  for (const vector of vectors) {
    const bytes = bytesOf(vector.private_message)
    const parts = parsePrivateMessage(bytes)
    const message = decodeMessage('mls_private_message', bytes)?.privateMessage
    assert.ok(parts && message)
    assert.equal(hex(parts.groupId), hex(message.groupId))
    assert.equal(parts.epoch, message.epoch)
    assert.equal(parts.contentType, CONTENT_TYPES[message.contentType])
    assert.equal(hex(parts.authenticatedData), hex(message.authenticatedData))
    assert.equal(hex(parts.senderData), hex(message.encryptedSenderData))
    assert.equal(hex(parts.ciphertext), hex(message.ciphertext))
    assert.equal(parsePrivateMessage(bytes.subarray(0, -1)), undefined)
    assert.equal(parsePrivateMessage(new Uint8Array([...bytes, 0])), undefined)
    seen.add(parts.contentType)
  }
  assert.deepEqual([...seen].toSorted(), Object.values(CONTENT_TYPES))
})

test('other messages are not PrivateMessages', () => {
  for (const vector of vectors) {
    for (const field of WHOLE) {
      assert.equal(parsePrivateMessage(bytesOf(vector[field])), undefined)
      assert.equal(decodeMessage('mls_private_message', bytesOf(vector[field])), undefined)
    }
  }
})

test('everything is encoded as it was decoded', () => {
  for (const vector of vectors) {
    for (const field of [...WHOLE, 'private_message'] as const)
      assert.equal(hex(encodeMlsMessage(decodeAll(decodeMlsMessage, vector[field]))), vector[field], field)
    for (const [field, encodeAgain] of Object.entries(PARTS)) {
      const bytes = vector[field as keyof typeof PARTS]
      assert.equal(encodeAgain(bytes), bytes, field)
    }
    const welcome = decodeMessage('mls_welcome', bytesOf(vector.mls_welcome))?.welcome
    const keyPackage = decodeMessage('mls_key_package', bytesOf(vector.mls_key_package))?.keyPackage
    assert.ok(welcome && keyPackage)
    assert.equal(hex(encodeWelcome(welcome)), vector.mls_welcome)
    assert.equal(hex(encodeKeyPackage(keyPackage)), vector.mls_key_package)
  }
})
