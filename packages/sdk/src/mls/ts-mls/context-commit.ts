/**
 * Creates a commit that changes the GroupContext (RFC 9420, section 12.4.1). The library creates none with a path,
 * which the RFC requires, unless the commit also removes a member; and then it encrypts the path's secrets under the
 * old context, so that no one could follow it. The steps are otherwise those of its `createCommit`; without Adds, there
 * is no Welcome.
 */
import type { ClientState, MLSMessage, Proposal, PskIndex } from 'ts-mls'
import { applyProposals, nextEpochContext } from 'ts-mls/clientState.js'
import { createConfirmationTag, createContentCommitSignature } from 'ts-mls/framedContent.js'
import { initializeEpoch } from 'ts-mls/keySchedule.js'
import { protect } from 'ts-mls/messageProtection.js'
import { getCommitSecret, pathToPathSecrets } from 'ts-mls/pathSecrets.js'
import { mergePrivateKeyPaths, toPrivateKeyPath, updateLeafKey } from 'ts-mls/privateKeyPath.js'
import { createSecretTree } from 'ts-mls/secretTree.js'
import { treeHashRoot } from 'ts-mls/treeHash.js'
import { leafWidth, toLeafIndex, toNodeIndex } from 'ts-mls/treemath.js'
import { createUpdatePath } from 'ts-mls/updatePath.js'
import { CONFIG } from './config.ts'
import type { MlsCrypto } from './key-package.ts'

const WIRE_FORMAT = 'mls_private_message'
const NO_DATA = new Uint8Array()

/** What `createCommit` of the library returns as well. */
interface ContextCommit {
  readonly newState: ClientState
  readonly commit: MLSMessage
  readonly welcome: undefined
}

/** Creates a commit of proposals that include a GroupContextExtensions and no Add. */
export async function createContextCommit(
  { provider }: MlsCrypto,
  state: ClientState,
  proposals: readonly Proposal[],
  pskIndex: PskIndex,
): Promise<ContextCommit> {
  const { hash, kdf, hpke, signature: signing } = provider
  const { groupContext, privatePath, signaturePrivateKey, keySchedule } = state
  const leaf = toLeafIndex(privatePath.leafIndex)
  const items = proposals.map((proposal) => ({ proposalOrRefType: 'proposal' as const, proposal }))
  const {
    tree: changed,
    additionalResult,
    pskSecret,
  } = await applyProposals(state, items, leaf, pskIndex, true, provider)
  if (additionalResult.kind !== 'memberCommit' || additionalResult.extensions.length === 0)
    throw new TypeError('A commit without a GroupContextExtensions proposal is created by the library.')
  const nextContext = { ...groupContext, extensions: additionalResult.extensions }
  const [tree, path, pathSecrets, leafKey] = await createUpdatePath(
    changed,
    leaf,
    nextContext,
    signaturePrivateKey,
    provider,
  )
  const last = pathSecrets.at(-1)
  // A lone leaf has none: its commit carries a PreSharedKey (commit.ts).
  const commitSecret = last ? await getCommitSecret(tree, toNodeIndex(last.nodeIndex), last.secret, kdf) : blank(kdf)
  const { signature, framedContent } = await createContentCommitSignature(
    groupContext,
    WIRE_FORMAT,
    { proposals: items, path },
    { senderType: 'member', leafIndex: leaf },
    NO_DATA,
    signaturePrivateKey,
    signing,
  )
  const entered = await nextEpochContext(
    nextContext,
    WIRE_FORMAT,
    framedContent,
    signature,
    await treeHashRoot(tree, hash),
    state.confirmationTag,
    hash,
  )
  const epoch = await initializeEpoch(keySchedule.initSecret, commitSecret, entered, pskSecret, kdf)
  const { confirmationKey } = epoch.keySchedule
  const confirmationTag = await createConfirmationTag(confirmationKey, entered.confirmedTranscriptHash, hash)
  const { privateMessage } = await protect(
    keySchedule.senderDataSecret,
    NO_DATA,
    groupContext,
    state.secretTree,
    { ...framedContent, auth: { contentType: framedContent.contentType, signature, confirmationTag } },
    leaf,
    CONFIG.paddingConfig,
    provider,
  )
  const secretTree = await createSecretTree(leafWidth(tree.length), epoch.encryptionSecret, kdf)
  const ownKeys = updateLeafKey(privatePath, await hpke.exportPrivateKey(leafKey))
  const pathKeys = await toPrivateKeyPath(pathToPathSecrets(pathSecrets), leaf, provider)
  for (const secret of [commitSecret, epoch.encryptionSecret, epoch.joinerSecret]) secret.fill(0)
  return {
    welcome: undefined,
    commit: { version: 'mls10', wireformat: WIRE_FORMAT, privateMessage },
    newState: {
      ...state,
      groupContext: entered,
      ratchetTree: tree,
      secretTree,
      keySchedule: epoch.keySchedule,
      privatePath: mergePrivateKeyPaths(ownKeys, pathKeys),
      unappliedProposals: {},
      confirmationTag,
    },
  }
}

function blank({ size }: MlsCrypto['provider']['kdf']): Uint8Array {
  return new Uint8Array(size)
}
