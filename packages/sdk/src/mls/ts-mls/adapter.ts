/** The engine, on the library ts-mls 1.6.4. The files in ts-mls/ explain its shortcomings and work around them. */
import { createGroup } from 'ts-mls/clientState.js'
import { createCommit } from 'ts-mls/createCommit.js'
import { mlsExporter } from 'ts-mls/keySchedule.js'
import { generateSignatureKeyPair } from '#platform/crypto'
import { CHANNEL_ID_BYTES, StaticError } from '@static/protocol'
import { concat } from '../../platform/bytes.ts'
import { SUITE, type Suite } from '../aead.ts'
import { ownedBy } from '../channel-context.ts'
import { FOUNDER_IDENTITY, memberIdentity } from '../credential.ts'
import type { NewGroup, Group, GroupFacts, MlsEngine } from '../engine.ts'
import { parsePrivateMessage } from '../framing.ts'
import { reopen } from '../ratchet.ts'
import { parseSealedWelcome } from '../sealed-welcome.ts'
import { followCommit, makeCommit } from './commit.ts'
import { CHANNEL_EXTENSIONS, CONFIG } from './config.ts'
import { commitsMade } from './handshake.ts'
import { checkKeyPackage, type MlsCrypto, encodeOwn, makeKeyPackage, wipeOwn } from './key-package.ts'
import { decodeMessage, encodeWelcome } from './message.ts'
import { makeProvider, POINT_BYTES } from './provider.ts'
import { decodeGroup, encodeGroup, inside, outside, wipe } from './state.ts'
import { contextExtensions, contextOf, membersOf } from './view.ts'
import { joinMlsGroup } from './join-group.ts'

/** Creates the engine. Channels use the default suite; interoperability tests use others. */
export function makeEngine(suite: Suite = SUITE): MlsEngine {
  const crypto: MlsCrypto = { suite, provider: makeProvider(suite) }
  return {
    generateKeyPackage: async (identity, key, now) => {
      const own = await makeKeyPackage(crypto, memberIdentity(identity), key, now)
      const made = await encodeOwn(crypto, own)
      wipeOwn(own)
      return made
    },
    checkKeyPackage: async (bytes, now, agentId) => {
      const {
        parsed: _,
        recipient: __,
        ...checked
      } = await checkKeyPackage(crypto, bytes, CHANNEL_EXTENSIONS, now, agentId)
      return checked
    },
    found: (group) => found(crypto, group),
    welcomeRefs: (bytes) => {
      const sealed = parseSealedWelcome(bytes)
      if (sealed) return [sealed.ref]
      return decodeMessage('mls_welcome', bytes)?.welcome.secrets.map(({ newMember }) => newMember) ?? []
    },
    welcomeInvite: (bytes) => parseSealedWelcome(bytes)?.inviteId,
    join: (welcome, privatePart, key, expected) => joinMlsGroup(crypto, welcome, privatePart, key, expected),
    facts,
    exportSecret: (group, label, context, length) =>
      mlsExporter(inside(group).state.keySchedule.exporterSecret, label, context, length, crypto.provider),
    commit: (group, change) => makeCommit(crypto, inside(group), change),
    process: (group, commit, declared) => followCommit(crypto, inside(group), commit, declared),
    encrypt: (group, ratchets, plaintext, authenticatedData) => {
      const { cipher, state, founding } = inside(group)
      if (founding)
        throw StaticError.of('invalid_request', 'The channel is not ready yet: the founder leaf has not been removed.')
      const row = ratchets.get(state.privatePath.leafIndex)
      if (row === undefined)
        throw StaticError.of('mls_error', `The ratchet of this agent, leaf ${state.privatePath.leafIndex}, is missing.`)
      return cipher.seal(row, plaintext, authenticatedData)
    },
    open: (group, ratchets, ciphertext, expected) => inside(group).cipher.open(ratchets, ciphertext, expected),
    reopen: (ciphertext, messageKey) => reopen(suite, ciphertext, messageKey),
    commitsMade: (group) => commitsMade(inside(group).state),
    hpkeSeal: async (publicKey, info, plaintext) => {
      const { hpke } = crypto.provider
      const { enc, ct } = await hpke.seal(await hpke.importPublicKey(Uint8Array.from(publicKey)), plaintext, info)
      return concat(enc, ct)
    },
    hpkeOpen: async (privateKey, info, sealed) => {
      const { hpke } = crypto.provider
      const enc = Uint8Array.from(sealed.subarray(0, POINT_BYTES))
      return await hpke.open(await hpke.importPrivateKey(privateKey), enc, sealed.subarray(POINT_BYTES), info)
    },
    epochOf: (message) => parsePrivateMessage(message)?.epoch,
    encodeGroup: (group) => encodeGroup(inside(group)),
    decodeGroup: (bytes, key) => outside(decodeGroup(crypto, bytes, key)),
    wipe: (group, staying) => wipe(inside(group).state, staying && inside(staying).state),
  }
}

function facts(group: Group): GroupFacts {
  const { state } = inside(group)
  const { groupContext, ratchetTree, privatePath, keySchedule } = state
  const members = membersOf(ratchetTree)
  const own = members.find(({ leaf }) => leaf === privatePath.leafIndex)
  if (own === undefined)
    throw StaticError.of('mls_error', `The leaf of this agent, ${privatePath.leafIndex}, is missing in the tree.`)
  return {
    groupId: Uint8Array.from(groupContext.groupId),
    epoch: groupContext.epoch,
    context: contextOf(state),
    members,
    own,
    // A copy, because the group's array is wiped later.
    epochAuthenticator: Uint8Array.from(keySchedule.epochAuthenticator),
  }
}

/**
 * The founder leaf's secrets exist only during this call. The Welcome is not sealed, because it leads to nothing: the
 * commit that removes the founder mixes in a PreSharedKey that no one else has, and before it nothing is sent.
 */
async function found(crypto: MlsCrypto, { channelId, name, keyPackage, now }: NewGroup): Promise<Uint8Array> {
  const { provider } = crypto
  if (channelId.length !== CHANNEL_ID_BYTES)
    throw StaticError.of('invalid_request', `A channel id must be ${CHANNEL_ID_BYTES} bytes, not ${channelId.length}.`)
  const { parsed, agentId } = await checkKeyPackage(crypto, keyPackage, CHANNEL_EXTENSIONS, now)
  const key = generateSignatureKeyPair()
  const founder = await makeKeyPackage(crypto, FOUNDER_IDENTITY, key, now)
  const { publicPackage, privatePackage } = founder
  const extensions = contextExtensions({ name, ...ownedBy(agentId) })
  const groupId = Uint8Array.from(channelId)
  const state = await createGroup(groupId, publicPackage, privatePackage, extensions, provider, CONFIG)
  const { newState, welcome } = await createCommit(
    { state, cipherSuite: provider },
    {
      extraProposals: [{ proposalType: 'add', add: { keyPackage: parsed } }],
      ratchetTreeExtension: true,
    },
  )
  wipe(state)
  wipe(newState)
  wipeOwn(founder)
  key.seed.fill(0)
  if (welcome === undefined) throw new TypeError('The MLS library returned no Welcome for the Add.')
  return encodeWelcome(welcome)
}
