/**
 * With OpenMLS, in the one suite that its build for npm has. It knows neither our extensions nor commits without
 * proposals sent before, so the group has no channel, its Welcomes are not sealed, and some steps go around our rules,
 * by the library alone. SPEC.md, 4.5, says what it would have to add.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from 'mls-ts'
import {
  type ClientState,
  createCommit,
  createGroup,
  decodeMlsMessage,
  emptyPskIndex,
  encodeMlsMessage,
  joinGroup,
  type KeyPackage,
  processPrivateMessage,
  processPublicMessage,
} from 'ts-mls'
import { encodeKeyPackage } from 'ts-mls/keyPackage.js'
import { decodeRatchetTree, encodeRatchetTree } from 'ts-mls/ratchetTree.js'
import { ed25519, generateSignatureKeyPair, type SignatureKeyPair } from '@static/node/ed25519'
import { leaveBytes } from '@static/protocol'
import { concat } from '../../src/platform/bytes.ts'
import { agentIdOf } from '../../src/mls/credential.ts'
import type { CommitChange, Epoch, Group, MlsEngine } from '../../src/mls/engine.ts'
import type { RatchetRow } from '../../src/mls/ratchet.ts'
import { CONFIG } from '../../src/mls/ts-mls/config.ts'
import { makeEngine } from '../../src/mls/ts-mls/adapter.ts'
import { type MlsCrypto, makeKeyPackage, type OwnKeyPackage } from '../../src/mls/ts-mls/key-package.ts'
import { decodeMessage, encodeWelcome } from '../../src/mls/ts-mls/message.ts'
import { makeProvider } from '../../src/mls/ts-mls/provider.ts'
import { adopt, inside } from '../../src/mls/ts-mls/state.ts'
import { CHACHA_SUITE } from './chacha-suite.ts'
import { hex, text, words } from './support.ts'

/** The linter cannot see through the way in which it is exported. */
const openmls: typeof raw = raw
const crypto: MlsCrypto = { suite: CHACHA_SUITE, provider: makeProvider(CHACHA_SUITE) }
const { provider } = crypto
const engine: MlsEngine = makeEngine(CHACHA_SUITE)
const KEY_PACKAGE_MESSAGE = new Uint8Array([0, 1, 0, 5])
const LABEL = 'label'
const CONTEXT = new Uint8Array([1])

/** One of our agents. */
class Ours {
  readonly key: SignatureKeyPair = generateSignatureKeyPair()
  #group: Group | undefined
  #rows = new Map<number, RatchetRow>()

  get group(): Group {
    assert.ok(this.#group)
    return this.#group
  }

  get state(): ClientState {
    return inside(this.group).state
  }

  keyPackage(name: string): Promise<OwnKeyPackage> {
    return makeKeyPackage(crypto, text(name), this.key, Date.now())
  }

  enter({ group, rows }: Epoch): void {
    this.#group = group
    this.#rows = new Map(rows.map((row) => [row.leaf, row]))
  }

  async commit(change: Omit<CommitChange, 'now'>): Promise<Uint8Array> {
    const { commit, next } = await engine.commit(this.group, { ...change, now: Date.now() })
    this.enter(next)
    return commit
  }

  /** By the library: adds an agent whose KeyPackage has no key to seal its Welcome. */
  async add(keyPackage: KeyPackage): Promise<{ commit: Uint8Array; welcome: Uint8Array }> {
    const { newState, commit, welcome } = await createCommit(
      { state: this.state, cipherSuite: provider },
      { extraProposals: [{ proposalType: 'add', add: { keyPackage } }], ratchetTreeExtension: true },
    )
    this.enter(adopt(crypto, newState, this.key))
    return { commit: encodeMlsMessage(commit), welcome: encodeWelcome(welcome ?? assert.fail()) }
  }

  send(message: string): Uint8Array {
    const { ciphertext, row } = engine.encrypt(this.group, this.#rows, text(message))
    this.#rows.set(row.leaf, row)
    return ciphertext
  }

  read(ciphertext: Uint8Array): string {
    const { plaintext, row } = engine.open(this.group, this.#rows, ciphertext, { steps: 1024 })
    this.#rows.set(row.leaf, row)
    return words(plaintext)
  }

  async secret(): Promise<string> {
    return hex(await engine.exportSecret(this.group, LABEL, CONTEXT, 32))
  }

  /** By the library: the Welcome names no channel, or lacks the tree. */
  async join(welcome: Uint8Array, own: OwnKeyPackage, tree: ClientState['ratchetTree']): Promise<void> {
    const message = decodeMlsMessage(Uint8Array.from(welcome), 0)?.[0]
    assert.ok(message?.wireformat === 'mls_welcome')
    const { publicPackage, privatePackage } = own
    const keys = [publicPackage, privatePackage] as const
    const state = await joinGroup(message.welcome, ...keys, emptyPskIndex, provider, tree, undefined, CONFIG)
    this.enter(adopt(crypto, state, this.key))
  }

  /** By the library: a proposal, or a commit of a proposal by reference. */
  async follow(bytes: Uint8Array): Promise<void> {
    const message = decodeMlsMessage(Uint8Array.from(bytes), 0)?.[0]
    assert.ok(message?.wireformat === 'mls_private_message' || message?.wireformat === 'mls_public_message')
    const { newState } =
      message.wireformat === 'mls_private_message'
        ? await processPrivateMessage(this.state, message.privateMessage, emptyPskIndex, provider)
        : await processPublicMessage(this.state, message.publicMessage, emptyPskIndex, provider)
    this.enter(adopt(crypto, newState, this.key))
  }
}

test('KeyPackage, Welcome, add, update, remove, messages and exporter, both ways', async () => {
  const alice = new Ours()
  const own = await alice.keyPackage('alice')
  const { publicPackage, privatePackage } = own
  const state = await createGroup(text('group'), publicPackage, privatePackage, [], provider, CONFIG)
  alice.enter(adopt(crypto, state, alice.key))

  const store = new openmls.Provider()
  const bob = new openmls.Identity(store, 'bob')
  const bobPackage = bob.key_package(store).to_bytes()
  const bobMessage = concat(KEY_PACKAGE_MESSAGE, bobPackage)
  await assert.rejects(alice.commit({ adds: [bobMessage] }), { code: 'invalid_request', message: /no key to seal/ })
  const { welcome } = await alice.add(decodeMessage('mls_key_package', bobMessage)!.keyPackage)
  const tree = openmls.RatchetTree.from_bytes(encodeRatchetTree(alice.state.ratchetTree))
  const atBob = openmls.Group.join(store, welcome, tree)
  const sameEpoch = async (...agents: Ours[]): Promise<void> => {
    const theirs = hex(atBob.export_key(store, LABEL, CONTEXT, 32))
    for (const agent of agents) assert.equal(await agent.secret(), theirs)
  }
  const bobReads = (ciphertext: Uint8Array): string => words(atBob.process_message(store, ciphertext))
  const bobSends = (message: string): Uint8Array => atBob.create_message(store, bob, text(message))
  await sameEpoch(alice)
  assert.equal(bobReads(alice.send('from ours')), 'from ours')
  assert.equal(alice.read(bobSends('from theirs')), 'from theirs')
  assert.equal(alice.read(bobSends('and again')), 'and again')

  atBob.process_message(store, await alice.commit({}))
  await sameEpoch(alice)

  const carol = new Ours()
  const carolOwn = await carol.keyPackage('carol')
  const added = await alice.add(carolOwn.publicPackage)
  atBob.process_message(store, added.commit)
  await carol.join(added.welcome, carolOwn, alice.state.ratchetTree)
  await sameEpoch(alice, carol)
  assert.equal(bobReads(carol.send('third')), 'third')
  assert.equal(carol.read(bobSends('to the third')), 'to the third')

  const { groupId } = alice.state.groupContext
  const leafKeys = [carolOwn.publicPackage.leafNode.hpkePublicKey]
  const signature = ed25519.signer(carol.key)(leaveBytes(groupId, { slot: 1n, leafKeys }))
  const commit = await alice.commit({
    removes: [agentIdOf(carol.key.publicKey)],
    leaveNotices: [{ publicKey: carol.key.publicKey, slot: 1n, leafKeys, signature }],
  })
  atBob.process_message(store, commit)
  await sameEpoch(alice)
  assert.equal(bobReads(alice.send('without carol')), 'without carol')

  const dave = new Ours()
  const daveOwn = await dave.keyPackage('dave')
  const theirPackage = openmls.KeyPackage.from_bytes(encodeKeyPackage(daveOwn.publicPackage))
  const theirAdd = atBob.propose_and_commit_add(store, bob, theirPackage)
  atBob.merge_pending_commit(store)
  await alice.follow(theirAdd.proposal)
  const declared = {
    declaration: { adds: [], removes: [], leaveNotices: [], vouches: [] },
    declarer: new Uint8Array(32),
  }
  const judged = await engine.process(alice.group, theirAdd.commit, declared)
  assert.equal(judged.kind === 'rejected' && judged.reason, 'proposal_not_allowed')
  await alice.follow(theirAdd.commit)
  const theirTree = decodeRatchetTree(atBob.export_ratchet_tree().to_bytes(), 0)?.[0]
  await dave.join(theirAdd.welcome, daveOwn, theirTree ?? [])
  await sameEpoch(alice, dave)
  assert.equal(bobReads(dave.send('by their Welcome')), 'by their Welcome')
  assert.equal(dave.read(bobSends('welcome')), 'welcome')
})
