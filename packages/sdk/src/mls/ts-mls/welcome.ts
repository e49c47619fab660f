/**
 * Joining by a Welcome (RFC 9420, section 12.4.3.1). Whoever knows a KeyPackage can make a Welcome for it, into any
 * group: what the caller expects is compared with the GroupContext and with **the leaf that signed the GroupInfo**,
 * not with any leaf that happens to be in the tree. A Welcome by a member that works against its owner looks the same.
 */
import { type ClientState, emptyPskIndex, type GroupInfo, joinGroup, type Welcome } from 'ts-mls'
import { makeKeyPackageRef } from 'ts-mls/keyPackage.js'
import { ratchetTreeFromExtension } from 'ts-mls/groupInfo.js'
import { getHpkePublicKey } from 'ts-mls/ratchetTree.js'
import { decryptGroupInfo, decryptGroupSecrets } from 'ts-mls/welcome.js'
import { CHANNEL_ID_BYTES, MAX_MEMBERS, StaticError } from '@static/protocol'
import { equal, keyOf } from '../bytes.ts'
import { isIdentity } from '../credential.ts'
import type { SignatureKeyPair } from '../ed25519.ts'
import type { ExpectedWelcome, Joined, Member } from '../engine.ts'
import { type Crypto, decodeOwn, type OwnKeyPackage } from '../key-package.ts'
import { isEncryptionKey } from '../x25519.ts'
import { CONFIG } from './config.ts'
import { decodeMessage } from './message.ts'
import { adopt } from './state.ts'
import { findContext, membersOf } from './view.ts'

/** Blank leaves are filled first, so the tree of the largest channel has 256 leaves. */
const MAX_NODES = 2 * 256 - 1

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
  // Not covered by any signature.
  if (welcome.cipherSuite !== crypto.suite.name) throw invalid('The Welcome is of another suite.')
  const own = decodeOwn(privatePart, key)
  try {
    const { signer: signerLeaf } = await openGroupInfo(crypto, welcome, own)
    const { publicPackage, privatePackage } = own
    const { provider } = crypto
    const [noTree, noPast] = [undefined, undefined]
    const state = await joinGroup(
      welcome,
      publicPackage,
      privatePackage,
      emptyPskIndex,
      provider,
      noTree,
      noPast,
      CONFIG,
    )
    const signer = membersOf(state.ratchetTree).find(({ leaf }) => leaf === signerLeaf)
    if (signer === undefined) throw invalid('Nobody signed the Welcome.')
    checkGroup(state, signer, expected)
    return { ...adopt(crypto, state, key), signer }
  } catch (error) {
    if (error instanceof StaticError) throw error
    throw StaticError.of('invalid_welcome', 'The Welcome is not for this agent, or broken.', { cause: error })
  } finally {
    own.privatePackage.initPrivateKey.fill(0)
  }
}

/** The library does not say who signed, so the GroupInfo is opened here once more. `joinGroup` verifies it. */
async function openGroupInfo({ provider }: Crypto, welcome: Welcome, own: OwnKeyPackage): Promise<GroupInfo> {
  const ref = await makeKeyPackageRef(own.publicPackage, provider.hash)
  const initKey = await provider.hpke.importPrivateKey(own.privatePackage.initPrivateKey)
  const secrets = await decryptGroupSecrets(initKey, ref, welcome, provider.hpke)
  if (secrets === undefined || secrets.psks.length > 0) throw invalid('The Welcome has no secrets for this agent.')
  const noPsk = new Uint8Array(provider.kdf.size)
  const info = await decryptGroupInfo(welcome, secrets.joinerSecret, noPsk, provider)
  const tree = info && ratchetTreeFromExtension(info)
  if (info === undefined || tree === undefined) throw invalid('The Welcome holds no tree.')
  // Before the library works on it, which takes more than linear time.
  if (tree.length > MAX_NODES) throw invalid('The tree is too large.')
  if (!tree.every((node) => node === undefined || isEncryptionKey(getHpkePublicKey(node))))
    throw invalid('The tree holds keys that nobody can use.')
  return info
}

function checkGroup(state: ClientState, signer: Member, expected: ExpectedWelcome): void {
  const { groupContext, ratchetTree } = state
  const context = findContext(groupContext.extensions)
  if (context === undefined) throw invalid('The group is not of a channel.')
  const members = membersOf(ratchetTree)
  const founding = expected.founding === true
  if (groupContext.groupId.length !== CHANNEL_ID_BYTES) throw invalid('The group has no channel id.')
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
  if (!members.some(({ agentId }) => equal(agentId, context.owner)))
    throw invalid('The owner of the channel is not in it.')
  if (members.length > MAX_MEMBERS) throw invalid('The channel has too many members.')
  const named = members.every(({ identity, founder }) => founder || isIdentity(identity))
  if (!named || new Set(members.map(({ identity }) => keyOf(identity))).size !== members.length)
    throw invalid('Members of the channel share an identity.')
}

function invalid(message: string): StaticError {
  return StaticError.of('invalid_welcome', message)
}
