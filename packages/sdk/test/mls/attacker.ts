/**
 * What a removed member, or the thief of a state, computes by hand: the next epoch with a commit secret of zeros. A
 * test that only calls the library does not see the hole, because the library refuses to try.
 */
import { type ClientState, emptyPskIndex, type PskIndex } from 'ts-mls'
import { applyProposals, nextEpochContext } from 'ts-mls/clientState.js'
import { initializeEpoch } from 'ts-mls/keySchedule.js'
import { unprotectPrivateMessage } from 'ts-mls/messageProtection.js'
import { createSecretTree } from 'ts-mls/secretTree.js'
import { treeHashRoot } from 'ts-mls/treeHash.js'
import { leafWidth, toLeafIndex } from 'ts-mls/treemath.js'
import { applyUpdatePath } from 'ts-mls/updatePath.js'
import type { SignatureKeyPair } from '@static/node/ed25519'
import { SUITE } from '../../src/mls/aead.ts'
import type { Group } from '../../src/mls/engine.ts'
import { CONFIG } from '../../src/mls/ts-mls/config.ts'
import type { MlsCrypto } from '../../src/mls/ts-mls/key-package.ts'
import { decodeMessage } from '../../src/mls/ts-mls/message.ts'
import { makeProvider } from '../../src/mls/ts-mls/provider.ts'
import { adopt, inside } from '../../src/mls/ts-mls/state.ts'
import { words } from './support.ts'

export const crypto: MlsCrypto = { suite: SUITE, provider: makeProvider(SUITE) }
const ZEROS = new Uint8Array(32)

/** What is put in place of a PreSharedKey that the attacker does not have. */
export type Guess = 'none' | 'zero key' | 'zero secret'

/** The state of the next epoch, if the commit secret is zeros. */
export async function deriveNext(group: Group, commit: Uint8Array, guess: Guess): Promise<ClientState> {
  const { provider } = crypto
  const { state } = inside(group)
  const message = decodeMessage('mls_private_message', commit)?.privateMessage
  if (message === undefined) throw new Error('no message')
  const { senderDataSecret, initSecret } = state.keySchedule
  const { content } = await unprotectPrivateMessage(
    senderDataSecret,
    message,
    state.secretTree,
    state.ratchetTree,
    state.groupContext,
    { ...CONFIG.keyRetentionConfig, maximumForwardRatchetSteps: 256 },
    provider,
  )
  if (content.content.contentType !== 'commit' || content.auth.contentType !== 'commit') throw new Error('no commit')
  if (content.content.sender.senderType !== 'member') throw new Error('no member')
  const { commit: inner, sender } = content.content
  const leaf = toLeafIndex(sender.leafIndex)
  const index: PskIndex = guess === 'none' ? emptyPskIndex : { findPsk: () => ZEROS }
  const applied = await applyProposals(state, inner.proposals, leaf, index, false, provider)
  const tree = inner.path ? await applyUpdatePath(applied.tree, leaf, inner.path, provider.hash) : applied.tree
  const groupContext = await nextEpochContext(
    state.groupContext,
    'mls_private_message',
    { ...content.content, commit: inner, contentType: 'commit' },
    content.auth.signature,
    await treeHashRoot(tree, provider.hash),
    state.confirmationTag,
    provider.hash,
  )
  const pskSecret = guess === 'zero secret' ? ZEROS : applied.pskSecret
  const epoch = await initializeEpoch(initSecret, ZEROS, groupContext, pskSecret, provider.kdf)
  return {
    ...state,
    ratchetTree: tree,
    groupContext,
    keySchedule: epoch.keySchedule,
    secretTree: await createSecretTree(leafWidth(tree.length), epoch.encryptionSecret, provider.kdf),
    confirmationTag: content.auth.confirmationTag,
  }
}

/** Whether somebody with this state reads a message of the epoch after the commit. */
export async function readsOn(
  group: Group,
  key: SignatureKeyPair,
  commit: Uint8Array,
  ciphertext: Uint8Array,
): Promise<string | undefined> {
  for (const guess of ['none', 'zero key', 'zero secret'] as const) {
    try {
      const next = adopt(crypto, await deriveNext(group, commit, guess), key)
      const ratchets = new Map(next.rows.map((row) => [row.leaf, row]))
      return words(inside(next.group).cipher.open(ratchets, ciphertext, { steps: 1024 }).plaintext)
    } catch {
      // The next guess.
    }
  }
  return undefined
}
