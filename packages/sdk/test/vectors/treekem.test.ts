import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { GroupContext, RatchetTree } from 'ts-mls'
import { applyUpdatePathSecret } from 'ts-mls/createCommit.js'
import { deriveSecret } from 'ts-mls/crypto/kdf.js'
import { getCommitSecret } from 'ts-mls/pathSecrets.js'
import { type PrivateKeyPath, toPrivateKeyPath } from 'ts-mls/privateKeyPath.js'
import { decodeRatchetTree, getHpkePublicKey } from 'ts-mls/ratchetTree.js'
import { toLeafIndex } from 'ts-mls/treemath.js'
import { applyUpdatePath, createUpdatePath, decodeUpdatePath, type UpdatePath } from 'ts-mls/updatePath.js'
import type { MlsCrypto } from '../../src/mls/ts-mls/key-package.ts'
import { TreeHashes } from '../../src/mls/ts-mls/tree-hash.ts'
import { hex } from '../mls/support.ts'
import { bytesOf, cryptoOf, decodeAll, type OfSuite, readVectors } from './support.ts'

interface TreeKem extends OfSuite {
  readonly group_id: string
  readonly epoch: number
  readonly confirmed_transcript_hash: string
  readonly ratchet_tree: string
  readonly leaves_private: readonly PrivateLeaf[]
  readonly update_paths: readonly {
    readonly sender: number
    readonly update_path: string
    /** For each leaf of the tree, if it is not blank and not the sender. */
    readonly path_secrets: readonly (string | null)[]
    readonly commit_secret: string
    readonly tree_hash_after: string
  }[]
}

interface PrivateLeaf {
  readonly index: number
  readonly encryption_priv: string
  readonly signature_priv: string
  readonly path_secrets: readonly { readonly node: number; readonly path_secret: string }[]
}

/** The private keys of a leaf, which must be those of the tree. */
async function keysOf({ provider }: MlsCrypto, tree: RatchetTree, leaf: PrivateLeaf): Promise<PrivateKeyPath> {
  const secrets = Object.fromEntries(leaf.path_secrets.map(({ node, path_secret }) => [node, bytesOf(path_secret)]))
  const { privateKeys } = await toPrivateKeyPath(secrets, leaf.index, provider)
  const all = { ...privateKeys, [2 * leaf.index]: bytesOf(leaf.encryption_priv) }
  for (const [index, raw] of Object.entries(all)) {
    const node = tree[Number(index)]
    assert.ok(node)
    // A key pair that does not belong together cannot open what it has sealed.
    const publicKey = await provider.hpke.importPublicKey(getHpkePublicKey(node))
    const { enc, ct } = await provider.hpke.seal(publicKey, raw, new Uint8Array())
    const privateKey = await provider.hpke.importPrivateKey(raw)
    assert.deepEqual(Uint8Array.from(await provider.hpke.open(privateKey, enc, ct, new Uint8Array())), raw)
  }
  return { leafIndex: leaf.index, privateKeys: all }
}

/** What a leaf derives from the path of another: its path secret and the commit secret. */
async function derive(
  { provider }: MlsCrypto,
  tree: RatchetTree,
  keys: PrivateKeyPath,
  sender: number,
  context: GroupContext,
  path: UpdatePath,
): Promise<readonly [pathSecret: string, commitSecret: string]> {
  const from = toLeafIndex(sender)
  const { nodeIndex, pathSecret } = await applyUpdatePathSecret(tree, keys, from, context, path, [], provider)
  return [hex(pathSecret), hex(await getCommitSecret(tree, nodeIndex, pathSecret, provider.kdf))]
}

for (const [at, vector] of (readVectors('treekem') as readonly TreeKem[]).entries()) {
  const crypto = cryptoOf(vector)
  const { provider, suite } = crypto
  const tree = decodeAll(decodeRatchetTree, vector.ratchet_tree)
  const contextOf = (treeHash: Uint8Array, epoch: bigint): GroupContext => ({
    version: 'mls10',
    cipherSuite: suite.name,
    groupId: bytesOf(vector.group_id),
    epoch,
    treeHash,
    confirmedTranscriptHash: bytesOf(vector.confirmed_transcript_hash),
    extensions: [],
  })

  test(`tree ${at}, suite ${vector.cipher_suite}: every leaf derives the secrets of every path`, async () => {
    const keys = await Promise.all(vector.leaves_private.map((leaf) => keysOf(crypto, tree, leaf)))
    for (const { sender, ...expected } of vector.update_paths) {
      const path = decodeAll(decodeUpdatePath, expected.update_path)
      const after = await applyUpdatePath(tree, toLeafIndex(sender), path, provider.hash)
      const hashes = new TreeHashes(after)
      assert.equal(hex(hashes.root), expected.tree_hash_after)
      assert.ok(hashes.areParentsValid())
      const context = contextOf(hashes.root, BigInt(vector.epoch))
      for (const own of keys) {
        if (own.leafIndex === sender) continue
        const secrets = await derive(crypto, after, own, sender, context, path)
        assert.deepEqual(secrets, [expected.path_secrets[own.leafIndex], expected.commit_secret])
      }
    }
  })

  test(`tree ${at}, suite ${vector.cipher_suite}: every leaf derives the secrets of a new path`, async () => {
    const [sender, ...others] = vector.leaves_private
    assert.ok(sender)
    const epoch = BigInt(vector.epoch)
    const [after, path, pathSecrets] = await createUpdatePath(
      tree,
      toLeafIndex(sender.index),
      contextOf(new TreeHashes(tree).root, epoch),
      bytesOf(sender.signature_priv),
      provider,
    )
    const root = pathSecrets.at(-1)
    assert.ok(root)
    const commitSecret = hex(await deriveSecret(root.secret, 'path', provider.kdf))
    const applied = await applyUpdatePath(tree, toLeafIndex(sender.index), path, provider.hash)
    const hashes = new TreeHashes(applied)
    assert.equal(hex(hashes.root), hex(new TreeHashes(after).root))
    assert.ok(hashes.areParentsValid())
    for (const other of others) {
      const own = await keysOf(crypto, tree, other)
      const context = contextOf(hashes.root, epoch + 1n)
      assert.equal((await derive(crypto, applied, own, sender.index, context, path))[1], commitSecret)
    }
  })
}
