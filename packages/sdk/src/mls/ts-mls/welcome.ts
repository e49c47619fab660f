/**
 * Joining by a Welcome (RFC 9420, section 12.4.3.1). Whoever knows a KeyPackage can make a Welcome for it, into any
 * group: what the caller expects is compared with the GroupContext and with **the leaf that signed the GroupInfo**,
 * not with any leaf that happens to be in the tree. A Welcome by a member that works against its owner looks the same.
 *
 * The steps are those of the library's `joinGroup`, which tells nobody who signed, checks trees too strictly (tree.ts)
 * and does not compare the path secret with the tree.
 */
import type { ClientState, GroupInfo, RatchetTree, Welcome } from 'ts-mls'
import { deriveSecret } from 'ts-mls/crypto/kdf.js'
import { ratchetTreeFromExtension, verifyGroupInfoConfirmationTag, verifyGroupInfoSignature } from 'ts-mls/groupInfo.js'
import type { GroupSecrets } from 'ts-mls/groupSecrets.js'
import { makeKeyPackageRef } from 'ts-mls/keyPackage.js'
import { deriveKeySchedule } from 'ts-mls/keySchedule.js'
import { pathToRoot } from 'ts-mls/pathSecrets.js'
import { findLeafIndex, getHpkePublicKey } from 'ts-mls/ratchetTree.js'
import { createSecretTree } from 'ts-mls/secretTree.js'
import { type LeafIndex, leafToNodeIndex, leafWidth, toLeafIndex } from 'ts-mls/treemath.js'
import { firstCommonAncestor } from 'ts-mls/updatePath.js'
import { decryptGroupInfo, decryptGroupSecrets } from 'ts-mls/welcome.js'
import type { SignatureKeyPair } from '@static/node/ed25519'
import { CHANNEL_ID_BYTES, MAX_MEMBERS, StaticError } from '@static/protocol'
import { equal, keyOf } from '../bytes.ts'
import { isIdentity } from '../credential.ts'
import type { ExpectedWelcome, Joined, Member } from '../engine.ts'
import { type Crypto, decodeOwn, type OwnKeyPackage } from '../key-package.ts'
import { isGroupInfoBounded, isTreeBounded } from './bounds.ts'
import { CONFIG } from './config.ts'
import { decodeMessage } from './message.ts'
import { adopt } from './state.ts'
import { faultOf } from './tree.ts'
import { findContext, isConfirmed, membersOf } from './view.ts'

/**
 * Joins, and refuses what is not as expected.
 *
 * @throws {StaticError} `invalid_welcome`
 */
export async function joinByWelcome(
  crypto: Crypto,
  bytes: Uint8Array,
  privatePart: Uint8Array,
  key: SignatureKeyPair,
  expected: ExpectedWelcome,
): Promise<Joined> {
  const welcome = decodeMessage('mls_welcome', bytes)?.welcome
  if (welcome === undefined) throw invalid('This is no Welcome.')
  const own = decodeOwn(privatePart, key)
  try {
    const opened = await openWelcome(crypto, welcome, own)
    const signer = await checkGroup(crypto, opened, expected)
    const state = await enter(crypto, opened, own)
    return { ...adopt(crypto, state, key), signer }
  } catch (error) {
    if (error instanceof StaticError) throw error
    throw StaticError.of('invalid_welcome', 'The Welcome is not for this agent, or broken.', { cause: error })
  } finally {
    own.privatePackage.initPrivateKey.fill(0)
  }
}

/** What a Welcome holds for this agent. */
export interface OpenedWelcome {
  readonly secrets: GroupSecrets
  readonly info: GroupInfo
  readonly tree: RatchetTree
}

/**
 * Decrypts a Welcome and checks its sizes and its suite.
 *
 * @throws {StaticError} `invalid_welcome`; the library throws errors of its own
 */
export async function openWelcome(
  { suite, provider }: Crypto,
  welcome: Welcome,
  { publicPackage, privatePackage }: OwnKeyPackage,
): Promise<OpenedWelcome> {
  const ref = await makeKeyPackageRef(publicPackage, provider.hash)
  const initKey = await provider.hpke.importPrivateKey(privatePackage.initPrivateKey)
  const secrets = await decryptGroupSecrets(initKey, ref, welcome, provider.hpke)
  if (secrets === undefined || secrets.psks.length > 0) throw invalid('The Welcome has no secrets for this agent.')
  const info = await decryptGroupInfo(welcome, secrets.joinerSecret, noPsk(provider), provider)
  if (info === undefined || !isGroupInfoBounded(info))
    throw invalid('The Welcome holds no group, or one with too many extensions.')
  const tree = ratchetTreeFromExtension(info)
  if (tree === undefined) throw invalid('The Welcome holds no tree.')
  const { cipherSuite, version } = info.groupContext
  // The suite outside is covered by no signature.
  if (cipherSuite !== suite.name || welcome.cipherSuite !== suite.name || version !== 'mls10')
    throw invalid('The Welcome is of another suite.')
  // Before more work is put into it, which grows faster than the tree.
  if (!isTreeBounded(tree)) throw invalid('The tree is too large, or one of its nodes.')
  return { secrets, info, tree }
}

/** The checks that need no secret; returns who signed. */
async function checkGroup(crypto: Crypto, { info, tree }: OpenedWelcome, expected: ExpectedWelcome): Promise<Member> {
  const { groupContext } = info
  const members = membersOf(tree)
  const signer = members.find(({ leaf }) => leaf === info.signer)
  if (!signer || !(await verifyGroupInfoSignature(info, signer.signatureKey, crypto.provider.signature)))
    throw invalid('Nobody signed the Welcome.')
  const context = findContext(groupContext.extensions)
  if (context === undefined) throw invalid('The group is not of a channel.')
  if (groupContext.groupId.length !== CHANNEL_ID_BYTES) throw invalid('The group has no channel id.')
  const founding = expected.founding === true
  if (expected.channelId !== undefined && !equal(expected.channelId, groupContext.groupId))
    throw invalid('The Welcome is for another channel.')
  if (expected.name !== undefined && expected.name !== context.name)
    throw invalid('The Welcome is for a channel of another name.')
  if (expected.owner !== undefined && !equal(expected.owner, context.owner))
    throw invalid('The channel has another owner.')
  if (expected.signer !== undefined && !equal(expected.signer, signer.agentId))
    throw invalid('The Welcome was made by another agent.')
  if (signer.founder !== founding || members.some(({ founder }) => founder) !== founding)
    throw invalid('The channel is not in the state that this Welcome should be from.')
  if (founding && members.length !== 2) throw invalid('There are others in a new channel.')
  const owner = members.find(({ agentId }) => equal(agentId, context.owner))
  if (owner === undefined) throw invalid('The owner of the channel is not in it.')
  if (members.length > MAX_MEMBERS) throw invalid('The channel has too many members.')
  const named = members.every(({ identity, founder }) => founder || isIdentity(identity))
  if (!named || new Set(members.map(({ identity }) => keyOf(identity))).size !== members.length)
    throw invalid('Members of the channel share an identity.')
  const fault = await faultOf(crypto, tree, groupContext)
  if (fault !== undefined) throw invalid(fault)
  // Whoever gets a KeyPackage of the owner can plant its leaf in a group of its own.
  if (!founding && owner !== signer && !isConfirmed(tree, owner))
    throw invalid('The owner of the channel has not confirmed it.')
  return signer
}

/**
 * The keys of the epoch, and the place in the tree.
 *
 * @throws {StaticError} `invalid_welcome`; the library throws errors of its own
 */
export async function enter(crypto: Crypto, opened: OpenedWelcome, own: OwnKeyPackage): Promise<ClientState> {
  const { provider } = crypto
  const { secrets, info, tree } = opened
  const { joinerSecret } = secrets
  const leaf = findLeafIndex(tree, own.publicPackage.leafNode)
  if (leaf === undefined) throw invalid('The own leaf is not in the tree.')
  const { hpkePrivateKey, signaturePrivateKey } = own.privatePackage
  const privateKeys = { ...(await pathKeys(crypto, opened, leaf)), [leafToNodeIndex(leaf)]: hpkePrivateKey }
  if (!(await verifyGroupInfoConfirmationTag(info, joinerSecret, noPsk(provider), provider)))
    throw invalid('The Welcome does not lead into its group.')
  const { groupContext, confirmationTag } = info
  const [keySchedule, encryptionSecret] = await deriveKeySchedule(
    joinerSecret,
    noPsk(provider),
    groupContext,
    provider.kdf,
  )
  const secretTree = await createSecretTree(leafWidth(tree.length), encryptionSecret, provider.kdf)
  encryptionSecret.fill(0)
  joinerSecret.fill(0)
  return {
    groupContext,
    ratchetTree: tree,
    privatePath: { leafIndex: leaf, privateKeys },
    signaturePrivateKey,
    confirmationTag,
    unappliedProposals: {},
    keySchedule,
    secretTree,
    historicalReceiverData: new Map(),
    groupActiveState: { kind: 'active' },
    clientConfig: CONFIG,
  }
}

/** The private keys of the nodes that the own leaf and the adder share, which must be those of the tree. */
async function pathKeys(
  { provider }: Crypto,
  { secrets, info, tree }: OpenedWelcome,
  leaf: LeafIndex,
): Promise<Record<number, Uint8Array>> {
  const keys: Record<number, Uint8Array> = {}
  if (secrets.pathSecret === undefined) return keys
  const ancestor = firstCommonAncestor(tree, leaf, toLeafIndex(info.signer))
  const path = await pathToRoot(tree, ancestor, secrets.pathSecret, provider.kdf)
  for (const [index, secret] of Object.entries(path)) {
    const node = tree[Number(index)]
    if (node === undefined) continue
    const { privateKey, publicKey } = await provider.hpke.deriveKeyPair(
      await deriveSecret(secret, 'node', provider.kdf),
    )
    if (!equal(await provider.hpke.exportPublicKey(publicKey), getHpkePublicKey(node)))
      throw invalid('The secrets of the Welcome are not those of its tree.')
    keys[Number(index)] = await provider.hpke.exportPrivateKey(privateKey)
  }
  return keys
}

function noPsk({ kdf }: Crypto['provider']): Uint8Array {
  return new Uint8Array(kdf.size)
}

function invalid(message: string): StaticError {
  return StaticError.of('invalid_welcome', message)
}
