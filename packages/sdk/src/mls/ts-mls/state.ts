/**
 * Wraps the library's group state (RFC 9420, sections 8 and 9): without application ratchets, which are moved into
 * rows, without anything of past epochs, and without private keys of blank nodes.
 * Copies made by the library or the garbage collector cannot be wiped.
 */
import type { ClientState, SecretTree } from 'ts-mls'
import { encodeGroupContext } from 'ts-mls/groupContext.js'
import { ed25519, sameBytes, type SignatureKeyPair, type Signer } from '#platform/crypto'
import { MAX_NUMBER, StaticError } from '@static/protocol'
import { concat } from '../../platform/bytes.ts'
import type { Group } from '../engine.ts'
import { EpochCipher, type RatchetRow } from '../ratchet.ts'
import { CONFIG } from './config.ts'
import { decodeState, encodeState } from './group-codec.ts'
import type { MlsCrypto } from './key-package.ts'
import { membersOf } from './view.ts'

const VERSION = 1

/** The content of a Group. */
export interface TsMlsGroup {
  readonly state: ClientState
  readonly key: SignatureKeyPair
  readonly cipher: EpochCipher
  /** The founder leaf is still in the tree: sending and adding are not allowed yet. */
  readonly founding: boolean
}

/** The content of an opaque group. */
export function inside(group: Group): TsMlsGroup {
  return group as unknown as TsMlsGroup
}

/** The opaque group with this content. */
export function outside(group: TsMlsGroup): Group {
  return group as unknown as Group
}

/** Wraps a new state from the library and moves its application ratchets out. */
export function adopt(
  crypto: MlsCrypto,
  fresh: ClientState,
  key: SignatureKeyPair,
): { readonly group: Group; readonly rows: readonly RatchetRow[] } {
  const { ratchetTree, groupContext } = fresh
  const rows: RatchetRow[] = []
  const secretTree: SecretTree = fresh.secretTree.map(({ handshake, application }, node) => {
    if (ratchetTree[node]?.nodeType !== 'leaf') {
      // The library derives ratchets for every node, but only leaves send.
      handshake.secret.fill(0)
      application.secret.fill(0)
      return { handshake: BLANK, application: BLANK }
    }
    const { generation, secret } = application
    rows.push({ epoch: groupContext.epoch, leaf: node / 2, generation, secret })
    return { handshake, application: BLANK }
  })
  const privateKeys: Record<number, Uint8Array> = {}
  for (const [node, secret] of Object.entries(fresh.privatePath.privateKeys)) {
    if (ratchetTree[Number(node)] !== undefined) privateKeys[Number(node)] = secret
  }
  const privatePath = { ...fresh.privatePath, privateKeys }
  const state = { ...fresh, secretTree, privatePath, historicalReceiverData: new Map(), clientConfig: CONFIG }
  return { group: outside(enclose(crypto, state, key)), rows }
}

const EMPTY = new Uint8Array()
const BLANK = { secret: EMPTY, generation: 0, unusedGenerations: {} }

/** Wraps a state whose application ratchets are already moved out. */
export function enclose(crypto: MlsCrypto, state: ClientState, key: SignatureKeyPair): TsMlsGroup {
  const { groupContext, ratchetTree, keySchedule, privatePath } = state
  const cipher = new EpochCipher({
    suite: crypto.suite,
    groupId: groupContext.groupId,
    epoch: groupContext.epoch,
    groupContext: encodeGroupContext(groupContext),
    senderDataSecret: keySchedule.senderDataSecret,
    leaf: privatePath.leafIndex,
    sign: signerOf(key),
    verifier: (leaf) => {
      const node = ratchetTree[2 * leaf]
      return node?.nodeType === 'leaf' ? ed25519.verifier(node.leaf.signaturePublicKey) : undefined
    },
  })
  return { state, key, cipher, founding: membersOf(ratchetTree).some(({ founder }) => founder) }
}

const signers = new WeakMap<SignatureKeyPair, Signer>()

/** Cached, because an agent has one key and many groups. */
function signerOf(key: SignatureKeyPair): Signer {
  let signer = signers.get(key)
  if (signer === undefined) signers.set(key, (signer = ed25519.signer(key)))
  return signer
}

/** Encodes a group for the database. */
export function encodeGroup({ state }: TsMlsGroup): Uint8Array {
  return concat(new Uint8Array([VERSION]), encodeState(state))
}

/**
 * Decodes a group from the database.
 *
 * @throws {StaticError} `store_corrupt`
 */
export function decodeGroup(crypto: MlsCrypto, bytes: Uint8Array, key: SignatureKeyPair): TsMlsGroup {
  const stored = decodeState(Uint8Array.from(bytes.subarray(1)))
  const own = stored?.ratchetTree[2 * stored.privatePath.leafIndex]
  if (bytes[0] !== VERSION || stored === undefined || own?.nodeType !== 'leaf')
    throw StaticError.of('store_corrupt', 'The stored state of a group is malformed.')
  if (!sameBytes(own.leaf.signaturePublicKey, key.publicKey))
    throw StaticError.of('store_corrupt', 'The stored state of a group belongs to another agent.')
  const { epoch } = stored.groupContext
  if (epoch > MAX_NUMBER)
    throw StaticError.of(
      'store_corrupt',
      `A stored group is in epoch ${epoch}; the last possible one is ${MAX_NUMBER}.`,
    )
  return enclose(crypto, { ...stored, signaturePrivateKey: key.seed, clientConfig: CONFIG }, key)
}

/** Overwrites the secrets of a state, except those it shares with `staying`. */
export function wipe(state: ClientState, staying?: ClientState): void {
  const kept = new Set(staying === undefined ? [] : secretsOf(staying))
  for (const secret of secretsOf(state)) if (!kept.has(secret)) secret.fill(0)
}

function secretsOf({ keySchedule, secretTree, privatePath }: ClientState): Uint8Array[] {
  return [
    ...Object.values(keySchedule),
    ...Object.values(privatePath.privateKeys),
    ...secretTree.flatMap(({ handshake, application }) => [handshake.secret, application.secret]),
  ]
}
