import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeMlsMessage, type GroupContext, type LeafNode, type RatchetTree } from 'ts-mls'
import { encodeCommit } from 'ts-mls/commit.js'
import { encodeGroupContext } from 'ts-mls/groupContext.js'
import { unprotectPrivateMessage, type UnprotectResult } from 'ts-mls/messageProtection.js'
import { unprotectPublicMessage } from 'ts-mls/messageProtectionPublic.js'
import { encodeProposal } from 'ts-mls/proposal.js'
import { createSecretTree, type SecretTree } from 'ts-mls/secretTree.js'
import { ed25519 } from '@static/node/ed25519'
import { EpochCipher, type Ratchets, reopen } from '../../src/mls/ratchet.ts'
import { capabilitiesOf, CONFIG } from '../../src/mls/ts-mls/config.ts'
import type { MlsCrypto } from '../../src/mls/ts-mls/key-package.ts'
import { decodeMessage } from '../../src/mls/ts-mls/message.ts'
import { openCommit, type OpenedCommit } from '../../src/mls/ts-mls/open-commit.ts'
import { hex, text } from '../mls/support.ts'
import { bytesOf, cryptoOf, decodeAll, type OfSuite, readVectors } from './support.ts'

interface Protection extends OfSuite {
  readonly group_id: string
  readonly epoch: number
  readonly tree_hash: string
  readonly confirmed_transcript_hash: string
  readonly signature_priv: string
  readonly signature_pub: string
  readonly encryption_secret: string
  readonly sender_data_secret: string
  readonly membership_key: string
  readonly proposal: string
  readonly proposal_priv: string
  readonly proposal_pub: string
  readonly commit: string
  readonly commit_priv: string
  readonly commit_pub: string
  readonly application: string
  readonly application_priv: string
}

/** Everything is sent by leaf 1 of a tree of two. */
const SENDER = 1

interface Scene {
  readonly crypto: MlsCrypto
  readonly context: GroupContext
  readonly senderDataSecret: Uint8Array
  readonly tree: RatchetTree
  readonly secretTree: SecretTree
  readonly cipher: EpochCipher
  readonly ratchets: Ratchets
}

async function sceneOf(vector: Protection): Promise<Scene> {
  const crypto = cryptoOf(vector)
  const { suite, provider } = crypto
  const context: GroupContext = {
    version: 'mls10',
    cipherSuite: suite.name,
    groupId: bytesOf(vector.group_id),
    epoch: BigInt(vector.epoch),
    treeHash: bytesOf(vector.tree_hash),
    confirmedTranscriptHash: bytesOf(vector.confirmed_transcript_hash),
    extensions: [],
  }
  const signaturePublicKey = bytesOf(vector.signature_pub)
  const senderDataSecret = bytesOf(vector.sender_data_secret)
  // Of the sender's leaf the vectors give the signature key alone.
  const leaf: LeafNode = {
    hpkePublicKey: new Uint8Array(32),
    signaturePublicKey,
    credential: { credentialType: 'basic', identity: text('sender') },
    capabilities: capabilitiesOf(suite),
    extensions: [],
    leafNodeSource: 'update',
    signature: new Uint8Array(64),
  }
  const secretTree = await createSecretTree(2, bytesOf(vector.encryption_secret), provider.kdf)
  const secret = secretTree[2 * SENDER]?.application.secret
  assert.ok(secret)
  const cipher = new EpochCipher({
    suite,
    groupId: context.groupId,
    epoch: context.epoch,
    groupContext: encodeGroupContext(context),
    senderDataSecret,
    leaf: SENDER,
    sign: ed25519.signer({ publicKey: signaturePublicKey, seed: bytesOf(vector.signature_priv) }),
    verifier: (index) => (index === SENDER ? ed25519.verifier(signaturePublicKey) : undefined),
  })
  return {
    crypto,
    context,
    senderDataSecret,
    tree: [undefined, undefined, { nodeType: 'leaf', leaf }],
    secretTree,
    cipher,
    ratchets: new Map([[SENDER, { epoch: context.epoch, leaf: SENDER, generation: 0, secret }]]),
  }
}

function unprotect(scene: Scene, bytes: Uint8Array): Promise<UnprotectResult> {
  const { crypto, context, senderDataSecret, tree, secretTree } = scene
  const { privateMessage } = decodeMessage('mls_private_message', bytes)!
  const { keyRetentionConfig } = CONFIG
  return unprotectPrivateMessage(
    senderDataSecret,
    privateMessage,
    secretTree,
    tree,
    context,
    keyRetentionConfig,
    crypto.provider,
  )
}

/** Our way to open a commit, which takes no more of a state than what the scene has. */
function open(
  { crypto, context, tree, secretTree, senderDataSecret }: Scene,
  bytes: Uint8Array,
): Promise<OpenedCommit> {
  const { privateMessage } = decodeMessage('mls_private_message', bytes)!
  const none = new Uint8Array()
  return openCommit(
    crypto,
    {
      groupContext: context,
      ratchetTree: tree,
      secretTree,
      keySchedule: {
        senderDataSecret,
        exporterSecret: none,
        externalSecret: none,
        confirmationKey: none,
        membershipKey: none,
        resumptionPsk: none,
        epochAuthenticator: none,
        initSecret: none,
      },
      privatePath: { leafIndex: 0, privateKeys: {} },
      signaturePrivateKey: none,
      unappliedProposals: {},
      confirmationTag: none,
      historicalReceiverData: new Map(),
      groupActiveState: { kind: 'active' },
      clientConfig: CONFIG,
    },
    privateMessage,
  )
}

for (const vector of readVectors('message-protection') as readonly Protection[]) {
  test(`suite ${vector.cipher_suite}: an application message is opened by the EpochCipher`, async () => {
    const { crypto, cipher, ratchets } = await sceneOf(vector)
    const message = bytesOf(vector.application_priv)
    const opened = cipher.open(ratchets, message, { steps: 1024 })
    assert.equal(hex(opened.plaintext), vector.application)
    assert.equal(opened.leaf, SENDER)
    assert.equal(hex(reopen(crypto.suite, message, opened.messageKey)), vector.application)
    assert.throws(() => cipher.open(ratchets, bytesOf(vector.commit_priv), { steps: 1024 }), {
      code: 'decryption_failure',
    })
  })

  test(`suite ${vector.cipher_suite}: the library opens what the EpochCipher seals`, async () => {
    const scene = await sceneOf(vector)
    const row = scene.ratchets.get(SENDER)
    assert.ok(row)
    const { ciphertext } = scene.cipher.seal(row, bytesOf(vector.application), text('data'))
    const { content } = (await unprotect(scene, ciphertext)).content
    assert.ok(content.contentType === 'application')
    assert.equal(hex(content.applicationData), vector.application)
    assert.equal(hex(scene.cipher.open(scene.ratchets, ciphertext, { steps: 0 }).plaintext), vector.application)
  })

  test(`suite ${vector.cipher_suite}: a commit and a proposal in PrivateMessages`, async () => {
    const scene = await sceneOf(vector)
    const opened = await open(scene, bytesOf(vector.commit_priv))
    assert.ok(opened.kind === 'commit')
    assert.equal(opened.leaf, SENDER)
    assert.equal(hex(encodeCommit(opened.commit)), vector.commit)
    assert.equal((await open(scene, bytesOf(vector.proposal_priv))).kind, 'not_a_commit')
    const { content } = (await unprotect(scene, bytesOf(vector.proposal_priv))).content
    assert.ok(content.contentType === 'proposal')
    assert.equal(hex(encodeProposal(content.proposal)), vector.proposal)
  })

  test(`suite ${vector.cipher_suite}: a commit and a proposal in PublicMessages`, async () => {
    const { crypto, context, tree } = await sceneOf(vector)
    const contents = await Promise.all(
      [vector.commit_pub, vector.proposal_pub].map(async (bytes) => {
        const message = decodeAll(decodeMlsMessage, bytes)
        assert.ok(message.wireformat === 'mls_public_message')
        const { membership_key } = vector
        const key = bytesOf(membership_key)
        return (await unprotectPublicMessage(key, context, tree, message.publicMessage, crypto.provider)).content
      }),
    )
    const [commit, proposal] = contents
    assert.ok(commit?.contentType === 'commit' && proposal?.contentType === 'proposal')
    assert.equal(hex(encodeCommit(commit.commit)), vector.commit)
    assert.equal(hex(encodeProposal(proposal.proposal)), vector.proposal)
  })
}
