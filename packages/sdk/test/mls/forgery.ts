/** What a member with the keys of its group can make of the messages of others, and of its own commits. */
import assert from 'node:assert/strict'
import { encodeMlsMessage } from 'ts-mls'
import type { Commit } from 'ts-mls/commit.js'
import { encodeGroupContext } from 'ts-mls/groupContext.js'
import { protect } from 'ts-mls/messageProtection.js'
import { SUITE, unseal } from '../../src/mls/aead.ts'
import { parsePrivateMessage, readSpan } from '../../src/mls/framing.ts'
import { EpochCipher, type Opened } from '../../src/mls/ratchet.ts'
import { CONFIG } from '../../src/mls/ts-mls/config.ts'
import { decodeMessage } from '../../src/mls/ts-mls/message.ts'
import { openCommit } from '../../src/mls/ts-mls/open-commit.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { crypto } from './attacker.ts'
import type { Agent } from './support.ts'

/** A commit with other content, sealed with the keys that every member has, but not signed. */
export async function reshaped(
  { group }: Agent,
  commit: Uint8Array,
  change: (commit: Commit) => Commit,
): Promise<Uint8Array> {
  const { state } = inside(group)
  const message = decodeMessage('mls_private_message', commit)?.privateMessage
  const opened = await openCommit(crypto, state, message ?? assert.fail('no message'))
  assert.ok(opened.kind === 'commit')
  const auth = { contentType: 'commit' as const, signature: new Uint8Array(64), confirmationTag: new Uint8Array(32) }
  const { privateMessage } = await protect(
    state.keySchedule.senderDataSecret,
    new Uint8Array(),
    state.groupContext,
    state.secretTree,
    { contentType: 'commit', commit: change(opened.commit), auth },
    opened.leaf,
    CONFIG.paddingConfig,
    crypto.provider,
  )
  return encodeMlsMessage({ version: 'mls10', wireformat: 'mls_private_message', privateMessage })
}

/**
 * Another member's message of this epoch, encrypted once more under that member's next key, with the row of its ratchet
 * after that. Undefined if the row is gone.
 */
export function resealed(
  { group, rows }: Agent,
  { leaf, messageKey, plaintext }: Opened,
  ciphertext: Uint8Array,
): ReturnType<EpochCipher['seal']> | undefined {
  const parts = parsePrivateMessage(ciphertext) ?? assert.fail('no message')
  const content = unseal(SUITE, messageKey, parts.contentData, parts.ciphertext)
  const signature = readSpan(content, readSpan(content, 0)?.end ?? 0) ?? assert.fail('no signature')
  const { groupContext, keySchedule } = inside(group).state
  const cipher = new EpochCipher({
    suite: SUITE,
    groupId: groupContext.groupId,
    epoch: groupContext.epoch,
    groupContext: encodeGroupContext(groupContext),
    senderDataSecret: keySchedule.senderDataSecret,
    leaf,
    sign: () => content.subarray(signature.start, signature.end),
    verifier: () => undefined,
  })
  const row = rows.get(leaf)
  return row && cipher.seal(row, plaintext)
}
