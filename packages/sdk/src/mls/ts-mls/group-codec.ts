/**
 * Encodes a group's state in the layout that the library's `decodeGroupState` reads. The library's own encoder nests
 * one call per list item, so a long list could overflow the stack; this one uses loops.
 */
import type { ClientState, GroupState, LeafNode, Node } from 'ts-mls'
import { decodeGroupState } from 'ts-mls/clientState.js'
import { uint16Encoder, uint32Encoder } from 'ts-mls/codec/number.js'
import { encode } from 'ts-mls/codec/tlsEncoder.js'
import { encodeCredential } from 'ts-mls/credential.js'
import { credentialTypeEncoder } from 'ts-mls/credentialType.js'
import { ciphersuiteEncoder } from 'ts-mls/crypto/ciphersuite.js'
import { extensionEncoder } from 'ts-mls/extension.js'
import { groupActiveStateEncoder } from 'ts-mls/groupActiveState.js'
import { encodeGroupContext } from 'ts-mls/groupContext.js'
import { encodeKeySchedule } from 'ts-mls/keySchedule.js'
import { leafNodeSourceEncoder } from 'ts-mls/leafNodeSource.js'
import { lifetimeEncoder } from 'ts-mls/lifetime.js'
import { nodeTypeEncoder } from 'ts-mls/nodeType.js'
import { privateKeyPathEncoder } from 'ts-mls/privateKeyPath.js'
import { protocolVersionEncoder } from 'ts-mls/protocolVersion.js'
import { secretTreeNodeEncoder } from 'ts-mls/secretTree.js'
import { concat, concatAll } from '../../platform/bytes.ts'
import { lengthBytes, writeLength } from '../framing.ts'

/** The encoded fields: the rest of a ClientState is empty in this SDK's groups, or stored elsewhere. */
export type StoredState = Pick<
  ClientState,
  'groupContext' | 'keySchedule' | 'secretTree' | 'ratchetTree' | 'privatePath' | 'confirmationTag' | 'groupActiveState'
>

const codec = {
  activeState: encode(groupActiveStateEncoder),
  credentialType: encode(credentialTypeEncoder),
  extension: encode(extensionEncoder),
  leafSource: encode(leafNodeSourceEncoder),
  lifetime: encode(lifetimeEncoder),
  nodeType: encode(nodeTypeEncoder),
  privatePath: encode(privateKeyPathEncoder),
  secretTreeNode: encode(secretTreeNodeEncoder),
  suite: encode(ciphersuiteEncoder),
  uint16: encode(uint16Encoder),
  uint32: encode(uint32Encoder),
  version: encode(protocolVersionEncoder),
} as const

const EMPTY = new Uint8Array()
const ABSENT = new Uint8Array([0])
const PRESENT = new Uint8Array([1])

/** Encodes a group without its signature key, pending proposals and past epochs. */
export function encodeState(state: StoredState): Uint8Array {
  const { ratchetTree } = state
  const end = ratchetTree.findLastIndex((node) => node !== undefined) + 1
  const nodes = ratchetTree.slice(0, end)
  return concat(
    encodeGroupContext(state.groupContext),
    encodeKeySchedule(state.keySchedule),
    list(state.secretTree, codec.secretTreeNode),
    list(nodes, (node) => (node === undefined ? ABSENT : concat(PRESENT, encodeNode(node)))),
    codec.privatePath(state.privatePath),
    vector(), // signature key
    vector(), // pending proposals
    vector(state.confirmationTag),
    vector(), // past epochs
    codec.activeState(state.groupActiveState),
  )
}

/** Decodes a state; undefined if the bytes are malformed. */
export function decodeState(bytes: Uint8Array): GroupState | undefined {
  try {
    const [state, length] = decodeGroupState(bytes, 0) ?? []
    return length === bytes.length ? state : undefined
  } catch {
    return undefined
  }
}

function encodeNode(node: Node): Uint8Array {
  const type = codec.nodeType(node.nodeType)
  if (node.nodeType === 'leaf') return concat(type, encodeLeaf(node.leaf))
  const { hpkePublicKey, parentHash, unmergedLeaves } = node.parent
  return concat(type, vector(hpkePublicKey), vector(parentHash), list(unmergedLeaves, codec.uint32))
}

function encodeLeaf(leaf: LeafNode): Uint8Array {
  const { versions, ciphersuites, extensions, proposals, credentials } = leaf.capabilities
  return concat(
    vector(leaf.hpkePublicKey),
    vector(leaf.signaturePublicKey),
    encodeCredential(leaf.credential),
    list(versions, codec.version),
    list(ciphersuites, codec.suite),
    list(extensions, codec.uint16),
    list(proposals, codec.uint16),
    list(credentials, codec.credentialType),
    codec.leafSource(leaf.leafNodeSource),
    sourceOf(leaf),
    list(leaf.extensions, codec.extension),
    vector(leaf.signature),
  )
}

/** The fields that depend on the source of a leaf. */
function sourceOf(leaf: LeafNode): Uint8Array {
  switch (leaf.leafNodeSource) {
    case 'key_package':
      return codec.lifetime(leaf.lifetime)
    case 'commit':
      return vector(leaf.parentHash)
    case 'update':
      return EMPTY
  }
}

function list<Item>(items: readonly Item[], encodeItem: (item: Item) => Uint8Array): Uint8Array {
  return vector(concatAll(items.map((item) => encodeItem(item))))
}

/** A byte string with its length before it. */
function vector(bytes: Uint8Array = EMPTY): Uint8Array {
  const head = new Uint8Array(lengthBytes(bytes.length))
  writeLength(head, 0, bytes.length)
  return concat(head, bytes)
}
