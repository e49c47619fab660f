/** The engine by the library ts-mls 1.6.4. What it gets wrong for us, and the cures, stand in the files of ts-mls/. */
import { createGroup } from 'ts-mls/clientState.js'
import { createCommit } from 'ts-mls/createCommit.js'
import { mlsExporter } from 'ts-mls/keySchedule.js'
import { generateSignatureKeyPair } from '@static/node/ed25519'
import { CHANNEL_ID_BYTES, StaticError } from '@static/protocol'
import { CONTEXT_TYPE } from '../context.ts'
import { FOUNDER_IDENTITY, memberIdentity } from '../credential.ts'
import type { Founding, Group, GroupFacts, MlsEngine } from '../engine.ts'
import { parsePrivateMessage } from '../framing.ts'
import { checkKeyPackage, type Crypto, encodeOwn, makeKeyPackage } from '../key-package.ts'
import { makeProvider, SUITE, type Suite } from '../provider.ts'
import { reopen } from '../ratchet.ts'
import { CONFIG } from './config.ts'
import { followCommit, makeCommit } from './commit.ts'
import { decodeMessage, encodeWelcome } from './message.ts'
import { decodeGroup, encodeGroup, inside, outside, wipe } from './state.ts'
import { contextExtensions, contextOf, membersOf } from './view.ts'
import { joinByWelcome } from './welcome.ts'

/** Makes the engine. Channels use one suite; another is for the interoperability tests. */
export function makeEngine(suite: Suite = SUITE): MlsEngine {
  const crypto: Crypto = { suite, provider: makeProvider(suite) }
  return {
    generateKeyPackage: async (identity, key, now) =>
      encodeOwn(crypto, await makeKeyPackage(crypto, memberIdentity(identity), key, now)),
    checkKeyPackage: async (bytes, now, agentId) => {
      const { parsed: _, ...checked } = await checkKeyPackage(crypto, bytes, [CONTEXT_TYPE], now, agentId)
      return checked
    },
    found: (founding) => found(crypto, founding),
    welcomeRefs: (bytes) =>
      decodeMessage('mls_welcome', bytes)?.welcome.secrets.map(({ newMember }) => newMember) ?? [],
    join: (welcome, privatePart, key, expected) => joinByWelcome(crypto, welcome, privatePart, key, expected),
    facts,
    exportSecret: (group, label, context, length) =>
      mlsExporter(inside(group).state.keySchedule.exporterSecret, label, context, length, crypto.provider),
    commit: (group, change) => makeCommit(crypto, inside(group), change),
    process: (group, commit, declared) => followCommit(crypto, inside(group), commit, declared),
    encrypt: (group, ratchets, plaintext, authenticatedData) => {
      const { cipher, state, founding } = inside(group)
      if (founding) throw StaticError.of('invalid_request', 'The channel is not founded yet.')
      const row = ratchets.get(state.privatePath.leafIndex)
      if (row === undefined) throw StaticError.of('mls_error', 'The own ratchet is missing.')
      return cipher.seal(row, plaintext, authenticatedData)
    },
    open: (group, ratchets, ciphertext, expected) => inside(group).cipher.open(ratchets, ciphertext, expected),
    reopen: (ciphertext, messageKey) => reopen(suite, ciphertext, messageKey),
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
  if (own === undefined) throw StaticError.of('mls_error', 'The own leaf is missing.')
  return {
    groupId: Uint8Array.from(groupContext.groupId),
    epoch: groupContext.epoch,
    context: contextOf(state),
    members,
    own,
    // A copy: the group's own is wiped one day.
    epochAuthenticator: Uint8Array.from(keySchedule.epochAuthenticator),
  }
}

/** The founder leaf lives as long as this call. */
async function found(crypto: Crypto, { channelId, name, keyPackage, now }: Founding): Promise<Uint8Array> {
  const { provider } = crypto
  if (channelId.length !== CHANNEL_ID_BYTES)
    throw StaticError.of('invalid_request', `A channel id has ${CHANNEL_ID_BYTES} bytes.`)
  const { parsed, agentId } = await checkKeyPackage(crypto, keyPackage, [CONTEXT_TYPE], now)
  const key = generateSignatureKeyPair()
  const { publicPackage, privatePackage } = await makeKeyPackage(crypto, FOUNDER_IDENTITY, key, now)
  const extensions = contextExtensions({ name, owner: agentId })
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
  for (const secret of [privatePackage.initPrivateKey, privatePackage.hpkePrivateKey, key.seed]) secret.fill(0)
  if (welcome === undefined) throw new TypeError('An Add gives a Welcome.')
  return encodeWelcome(welcome)
}
