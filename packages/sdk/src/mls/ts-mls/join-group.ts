/**
 * Joins a group with a Welcome (RFC 9420, section 12.4.3.1). Anyone who has a KeyPackage can create a Welcome for it,
 * into any group, so the caller's expectations are compared with the GroupContext and with **the leaf that signed the
 * GroupInfo**, not with any leaf that happens to be in the tree. A Welcome from a member that acts against the owner
 * looks the same.
 *
 * The steps are those of the library's `joinGroup`, which does not report the signer, checks trees too strictly
 * (tree.ts) and does not compare the path secret with the tree.
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
import { sameBytes, type SignatureKeyPair } from '#platform/crypto'
import { CHANNEL_ID_BYTES, MAX_MEMBERS, MAX_NUMBER, StaticError, toHex } from '@static/protocol'
import { latin1, same } from '../../platform/bytes.ts'
import { isIdentity } from '../credential.ts'
import type { ExpectedWelcome, Joined, Member } from '../engine.ts'
import { isSealed, openSealedWelcome, parseSealedWelcome } from '../sealed-welcome.ts'
import { isGroupInfoBounded, isTreeBounded, MAX_LIST } from './bounds.ts'
import { CONFIG } from './config.ts'
import { decodeOwn, type MlsCrypto, type MlsKeyPackage, type OwnKeyPackage } from './key-package.ts'
import { decodeMessage } from './message.ts'
import { adopt } from './state.ts'
import { faultOf } from './tree.ts'
import { findContext, isConfirmed, membersOf } from './view.ts'

/**
 * Joins a group and rejects a Welcome that is not as expected.
 *
 * @throws {StaticError} `invalid_welcome`
 */
export async function joinMlsGroup(
  crypto: MlsCrypto,
  bytes: Uint8Array,
  privatePart: Uint8Array,
  key: SignatureKeyPair,
  expected: ExpectedWelcome,
): Promise<Joined> {
  const own = decodeOwn(privatePart, key)
  try {
    const welcome = expected.founding === true ? decodePlain(bytes) : unseal(bytes, own, expected)
    const opened = await decryptWelcome(crypto, welcome, own)
    const signer = await checkGroup(crypto, opened, expected)
    const state = await enter(crypto, opened, own)
    return { ...adopt(crypto, state, key), signer }
  } catch (error) {
    if (error instanceof StaticError) throw error
    throw StaticError.of('invalid_welcome', 'The Welcome is damaged or not for this agent.', { cause: error })
  } finally {
    own.privatePackage.initPrivateKey.fill(0)
    own.sealPair.seed.fill(0)
  }
}

/** A Welcome as MLS has it. */
function decodePlain(bytes: Uint8Array): Welcome {
  const welcome = decodeMessage('mls_welcome', bytes)?.welcome
  if (welcome === undefined) throw invalid(`Not a Welcome: ${bytes.length} bytes that do not parse as one.`)
  return welcome
}

/** Opens the seal of a Welcome. Any change to a sealed Welcome is detected here, so all changes have the same code. */
function unseal(bytes: Uint8Array, { sealPair }: OwnKeyPackage, { invite }: ExpectedWelcome): Welcome {
  const sealed = parseSealedWelcome(bytes)
  if (sealed === undefined) throw invalid(unsealedReason(bytes))
  const { inviteId } = sealed
  if (invite === undefined && inviteId !== undefined)
    throw invalid(`The Welcome is for a join by invite ${toHex(inviteId)}, which this agent does not wait for.`)
  if (invite !== undefined && (inviteId === undefined || !same(inviteId, invite.inviteId)))
    throw invalid('The Welcome is not for a join by this invite.')
  const plain = openSealedWelcome(sealed, sealPair, invite?.seal)
  try {
    return decodePlain(plain)
  } finally {
    plain.fill(0)
  }
}

function unsealedReason(bytes: Uint8Array): string {
  if (isSealed(bytes)) return `The Welcome is cut off, or of a newer version: ${bytes.length} bytes.`
  if (decodeMessage('mls_welcome', bytes) === undefined)
    return `Not a Welcome: ${bytes.length} bytes that do not parse as one.`
  return 'The Welcome is not sealed, so a recording of it could be opened one day. The agent that added this one runs an older version: update it.'
}

/** The content of a Welcome for this agent. */
export interface DecryptedWelcome {
  readonly secrets: GroupSecrets
  readonly info: GroupInfo
  readonly tree: RatchetTree
}

/**
 * Decrypts a Welcome and checks its sizes and its suite.
 *
 * @throws {StaticError} `invalid_welcome`, or an error of the library
 */
export async function decryptWelcome(
  { suite, provider }: MlsCrypto,
  welcome: Welcome,
  { publicPackage, privatePackage }: MlsKeyPackage,
): Promise<DecryptedWelcome> {
  const ref = await makeKeyPackageRef(publicPackage, provider.hash)
  const initKey = await provider.hpke.importPrivateKey(privatePackage.initPrivateKey)
  const secrets = await decryptGroupSecrets(initKey, ref, welcome, provider.hpke)
  if (secrets === undefined) throw invalid('The Welcome is not for this KeyPackage.')
  if (secrets.psks.length > 0)
    throw invalid(`The Welcome requires ${secrets.psks.length} pre-shared keys; channels use none.`)
  const info = await decryptGroupInfo(welcome, secrets.joinerSecret, noPsk(provider), provider)
  if (info === undefined || !isGroupInfoBounded(info))
    throw invalid(`The Welcome contains no GroupInfo with at most ${MAX_LIST} extensions.`)
  const tree = ratchetTreeFromExtension(info)
  if (tree === undefined) throw invalid('The Welcome contains no tree.')
  const { cipherSuite, version } = info.groupContext
  // No signature covers the suite in the Welcome itself.
  if (cipherSuite !== suite.name || welcome.cipherSuite !== suite.name || version !== 'mls10')
    throw invalid(`The Welcome is for ${version} and ${cipherSuite}; channels use mls10 and ${suite.name}.`)
  // Checked before any work that grows faster than the tree.
  if (!isTreeBounded(tree)) throw invalid(`The tree is too large: ${tree.length} nodes, or one of them is too large.`)
  return { secrets, info, tree }
}

/** Makes the checks that need no secret. Returns the signer. */
async function checkGroup(
  crypto: MlsCrypto,
  { info, tree }: DecryptedWelcome,
  expected: ExpectedWelcome,
): Promise<Member> {
  const { groupContext } = info
  const members = membersOf(tree)
  const signer = members.find(({ leaf }) => leaf === info.signer)
  if (!signer || !(await verifyGroupInfoSignature(info, signer.signatureKey, crypto.provider.signature)))
    throw invalid('The Welcome is not signed by a member.')
  const context = findContext(groupContext.extensions)
  if (context === undefined) throw invalid('The group is not that of a channel.')
  if (groupContext.groupId.length !== CHANNEL_ID_BYTES)
    throw invalid(`The channel id must be ${CHANNEL_ID_BYTES} bytes, not ${groupContext.groupId.length}.`)
  const founding = expected.founding === true
  if (expected.channelId !== undefined && !sameBytes(expected.channelId, groupContext.groupId))
    throw invalid(
      `The Welcome is for another channel: ${toHex(groupContext.groupId)}, not ${toHex(expected.channelId)}.`,
    )
  if (expected.name !== undefined && expected.name !== context.name)
    throw invalid(`The Welcome is for channel ${context.name}, not ${expected.name}.`)
  if (expected.owner !== undefined && !sameBytes(expected.owner, context.owner))
    throw invalid(`The channel is owned by ${toHex(context.owner)}, not ${toHex(expected.owner)}.`)
  if (expected.signer !== undefined && !sameBytes(expected.signer, signer.agentId))
    throw invalid(`The Welcome was made by agent ${toHex(signer.agentId)}, not ${toHex(expected.signer)}.`)
  if (signer.founder !== founding || members.some(({ founder }) => founder) !== founding)
    throw invalid(founding ? 'The founder leaf did not sign the Welcome.' : 'The founder leaf is still in the channel.')
  if (founding && members.length !== 2)
    throw invalid(`The new channel has other members: ${members.length} leaves, not 2.`)
  const owner = members.find(({ agentId }) => sameBytes(agentId, context.owner))
  if (owner === undefined) throw invalid(`The owner of the channel, ${toHex(context.owner)}, is not a member.`)
  const { standby } = context
  if (standby !== undefined && !members.some(({ agentId }) => sameBytes(agentId, standby)))
    throw invalid(`The standby of the channel, ${toHex(standby)}, is not a member.`)
  if (members.length > MAX_MEMBERS)
    throw invalid(`The channel has ${members.length} members; the limit is ${MAX_MEMBERS}.`)
  if (groupContext.epoch > MAX_NUMBER)
    throw invalid(`The group is in epoch ${groupContext.epoch}; the last possible one is ${MAX_NUMBER}.`)
  const named = members.every(({ identity, founder }) => founder || isIdentity(identity))
  if (!named || new Set(members.map(({ identity }) => latin1(identity))).size !== members.length)
    throw invalid('Members of the channel share an identity, or one has an invalid identity.')
  const fault = await faultOf(crypto, tree, groupContext)
  if (fault !== undefined) throw invalid(fault)
  // Anyone with a KeyPackage of the owner can put its leaf into a group of their own.
  if (!founding && owner !== signer && !isConfirmed(tree, owner))
    throw invalid('The owner of the channel has not confirmed it with a commit.')
  return signer
}

/**
 * Derives the keys of the epoch and finds this agent's leaf in the tree.
 *
 * @throws {StaticError} `invalid_welcome`, or an error of the library
 */
export async function enter(crypto: MlsCrypto, opened: DecryptedWelcome, own: MlsKeyPackage): Promise<ClientState> {
  const { provider } = crypto
  const { secrets, info, tree } = opened
  const { joinerSecret } = secrets
  const leaf = findLeafIndex(tree, own.publicPackage.leafNode)
  if (leaf === undefined) throw invalid('The leaf of this agent is not in the tree.')
  const { hpkePrivateKey, signaturePrivateKey } = own.privatePackage
  const privateKeys = { ...(await pathKeys(crypto, opened, leaf)), [leafToNodeIndex(leaf)]: hpkePrivateKey }
  if (!(await verifyGroupInfoConfirmationTag(info, joinerSecret, noPsk(provider), provider)))
    throw invalid('The secrets of the Welcome do not match its group: the confirmation tag is wrong.')
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

/** The private keys of the nodes above both this agent's leaf and the signer's; they must match the tree. */
async function pathKeys(
  { provider }: MlsCrypto,
  { secrets, info, tree }: DecryptedWelcome,
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
    if (!sameBytes(await provider.hpke.exportPublicKey(publicKey), getHpkePublicKey(node)))
      throw invalid('The path secret of the Welcome does not match its tree.')
    keys[Number(index)] = await provider.hpke.exportPrivateKey(privateKey)
  }
  return keys
}

function noPsk({ kdf }: MlsCrypto['provider']): Uint8Array {
  return new Uint8Array(kdf.size)
}

function invalid(message: string): StaticError {
  return StaticError.of('invalid_welcome', message)
}
