/** A member that joins and follows, but never speaks: the vectors that run whole groups. */
import assert from 'node:assert/strict'
import {
  type ClientState,
  decodeMlsMessage,
  encodeGroupState,
  joinGroup,
  processPublicMessage,
  type PskIndex,
  type PublicMessage,
  type Welcome,
} from 'ts-mls'
import { protect } from 'ts-mls/messageProtection.js'
import { unprotectPublicMessage } from 'ts-mls/messageProtectionPublic.js'
import type { PreSharedKeyID } from 'ts-mls/presharedkey.js'
import { decodeRatchetTree } from 'ts-mls/ratchetTree.js'
import type { SignatureKeyPair } from '@static/node/ed25519'
import { isSound } from '../../src/mls/ts-mls/commit.ts'
import { CONFIG } from '../../src/mls/ts-mls/config.ts'
import { decodeState } from '../../src/mls/ts-mls/group-codec.ts'
import type { MlsCrypto, MlsKeyPackage } from '../../src/mls/ts-mls/key-package.ts'
import { decodeMessage } from '../../src/mls/ts-mls/message.ts'
import { openCommit } from '../../src/mls/ts-mls/open-commit.ts'
import { adopt, decodeGroup, encodeGroup, inside, type TsMlsGroup } from '../../src/mls/ts-mls/state.ts'
import { hex } from '../mls/support.ts'
import { bytesOf, cryptoOf, decodeAll, type OfSuite } from './support.ts'

export interface PassiveClient extends OfSuite {
  readonly external_psks: readonly { readonly psk_id: string; readonly psk: string }[]
  readonly key_package: string
  readonly signature_priv: string
  readonly encryption_priv: string
  readonly init_priv: string
  readonly welcome: string
  /** Where the Welcome holds no tree. */
  readonly ratchet_tree: string | null
  readonly initial_epoch_authenticator: string
  readonly epochs: readonly EpochStep[]
}

interface EpochStep {
  readonly proposals: readonly string[]
  readonly commit: string
  readonly epoch_authenticator: string
}

/** The Welcome of an entry, and the KeyPackage that it answers. */
export function readWelcome(vector: PassiveClient): { welcome: Welcome; own: MlsKeyPackage; key: SignatureKeyPair } {
  const publicPackage = decodeMessage('mls_key_package', bytesOf(vector.key_package))?.keyPackage
  const welcome = decodeMessage('mls_welcome', bytesOf(vector.welcome))?.welcome
  assert.ok(publicPackage && welcome)
  const seed = bytesOf(vector.signature_priv)
  const privatePackage = {
    initPrivateKey: bytesOf(vector.init_priv),
    hpkePrivateKey: bytesOf(vector.encryption_priv),
    signaturePrivateKey: seed,
  }
  return {
    welcome,
    own: { publicPackage, privatePackage },
    key: { publicKey: publicPackage.leafNode.signaturePublicKey, seed },
  }
}

/** The pre-shared keys of an entry; those of past epochs are kept here, because a group of ours forgets them. */
class PskStore implements PskIndex {
  readonly #external: ReadonlyMap<string, Uint8Array>
  readonly #epochs = new Map<bigint, Uint8Array>()

  constructor({ external_psks }: PassiveClient) {
    this.#external = new Map(external_psks.map(({ psk_id, psk }) => [psk_id, bytesOf(psk)]))
  }

  keep({ groupContext, keySchedule }: ClientState): void {
    this.#epochs.set(groupContext.epoch, Uint8Array.from(keySchedule.resumptionPsk))
  }

  findPsk(id: PreSharedKeyID): Uint8Array | undefined {
    return id.psktype === 'external' ? this.#external.get(hex(id.pskId)) : this.#epochs.get(id.pskEpoch)
  }
}

/** Joins by the library: channels take no Welcome with PreSharedKeys. */
export async function joinByLibrary(vector: PassiveClient): Promise<ClientState> {
  const { welcome, own } = readWelcome(vector)
  const tree = vector.ratchet_tree === null ? undefined : decodeAll(decodeRatchetTree, vector.ratchet_tree)
  const { provider } = cryptoOf(vector)
  return joinGroup(welcome, own.publicPackage, own.privatePackage, new PskStore(vector), provider, tree)
}

/**
 * Takes over a state of the library and reads it again from the bytes for the database, which must be those that the
 * library itself would write.
 */
export function restart(crypto: MlsCrypto, fresh: ClientState, key: SignatureKeyPair): TsMlsGroup {
  const group = inside(adopt(crypto, fresh, key).group)
  const bytes = encodeGroup(group)
  const bare = { ...group.state, signaturePrivateKey: new Uint8Array() }
  assert.equal(hex(bytes.subarray(1)), hex(encodeGroupState(bare)))
  const { clientConfig: _, ...expected } = bare
  // Bytes come back as views and as Buffers.
  assert.deepEqual(plain(decodeState(bytes.slice(1))), plain(expected))
  const read = decodeGroup(crypto, bytes, key)
  assert.equal(hex(encodeGroup(read)), hex(bytes))
  return read
}

function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return hex(value)
  if (Array.isArray(value)) return value.map(plain)
  if (value === null || typeof value !== 'object' || value instanceof Map) return value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, plain(field)]))
}

/** A commit of a vector, in the state that it is for. */
export interface Followed {
  readonly sound: boolean
  /** How our way to open a commit ends. */
  readonly opened: string
  /** Whether it carries a PreSharedKey, itself or by reference. */
  readonly hasPsk: boolean
}

/** Follows all epochs of an entry. The state of each is stored and read before the next. */
export async function followAll(vector: PassiveClient, joined: ClientState): Promise<readonly Followed[]> {
  const crypto = cryptoOf(vector)
  const { key } = readWelcome(vector)
  const followed: Followed[] = []
  const psks = new PskStore(vector)
  let { state } = restart(crypto, joined, key)
  assert.equal(hex(state.keySchedule.epochAuthenticator), vector.initial_epoch_authenticator)
  for (const { proposals, commit, epoch_authenticator } of vector.epochs) {
    psks.keep(state)
    for (const proposal of proposals)
      state = (await processPublicMessage(state, publicMessage(proposal), psks, crypto.provider)).newState
    followed.push(await judge(crypto, state, publicMessage(commit)))
    const { newState } = await processPublicMessage(state, publicMessage(commit), psks, crypto.provider)
    state = restart(crypto, newState, key).state
    assert.equal(hex(state.keySchedule.epochAuthenticator), epoch_authenticator)
  }
  return followed
}

function publicMessage(bytes: string): PublicMessage {
  const message = decodeAll(decodeMlsMessage, bytes)
  // All proposals and commits of these vectors are, so a channel takes none of them as it is.
  assert.ok(message.wireformat === 'mls_public_message')
  return message.publicMessage
}

async function judge(crypto: MlsCrypto, state: ClientState, message: PublicMessage): Promise<Followed> {
  const { provider } = crypto
  const { membershipKey } = state.keySchedule
  const { groupContext, ratchetTree, unappliedProposals } = state
  const { content, auth } = await unprotectPublicMessage(membershipKey, groupContext, ratchetTree, message, provider)
  assert.ok(content.contentType === 'commit' && auth.contentType === 'commit' && content.sender.senderType === 'member')
  const { leafIndex } = content.sender
  const { commit } = content
  const psks = commit.proposals.filter((item) => {
    if (item.proposalOrRefType === 'proposal') return 'psk' in item.proposal
    const referred = unappliedProposals[Buffer.from(item.reference).toString('base64')]
    return referred !== undefined && 'psk' in referred.proposal
  })
  return {
    sound: await isSound(crypto, state, leafIndex, commit),
    opened: await openWrapped(crypto, state, { contentType: 'commit', commit, auth }, leafIndex),
    hasPsk: psks.length > 0,
  }
}

type Content = Extract<Parameters<typeof protect>[4], { contentType: 'commit' }>

/**
 * Opens a commit as the PrivateMessage that a channel would have sent. Its signature names the wire format and cannot be
 * made without the sender's key, so it alone goes unchecked.
 */
async function openWrapped(crypto: MlsCrypto, state: ClientState, content: Content, leaf: number): Promise<string> {
  const { provider } = crypto
  const { senderDataSecret } = state.keySchedule
  const { privateMessage } = await protect(
    senderDataSecret,
    new Uint8Array(),
    state.groupContext,
    state.secretTree,
    content,
    leaf,
    CONFIG.paddingConfig,
    provider,
  )
  const signature = { ...provider.signature, verify: async (): Promise<boolean> => true }
  const opened = await openCommit({ ...crypto, provider: { ...provider, signature } }, state, privateMessage)
  if (opened.kind === 'commit') assert.deepEqual(plain(opened.commit), plain(content.commit))
  return opened.kind
}
