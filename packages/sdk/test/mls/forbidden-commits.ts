/** Commits that the rules forbid, made by a member that holds the real state of its group. */
import assert from 'node:assert/strict'
import {
  type CiphersuiteImpl,
  type ClientState,
  createCommit,
  createGroupInfoWithExternalPubAndRatchetTree,
  createProposal,
  encodeMlsMessage,
  type Extension,
  joinGroupExternal,
  type Proposal,
} from 'ts-mls'
import { signKeyPackage } from 'ts-mls/keyPackage.js'
import { ed25519, generateSignatureKeyPair, type SignatureKeyPair } from '@static/node/ed25519'
import { type DeclarationFields, leaveBytes, type LeaveNoticeFields, parseChannelName } from '@static/protocol'
import { type ChannelContext, CONTEXT_TYPE } from '../../src/mls/channel-context.ts'
import { agentIdOf, FOUNDER_IDENTITY } from '../../src/mls/credential.ts'
import type { Rejection } from '../../src/mls/engine.ts'
import { CONFIG } from '../../src/mls/ts-mls/config.ts'
import { createContextCommit } from '../../src/mls/ts-mls/context-commit.ts'
import { makeKeyPackage } from '../../src/mls/ts-mls/key-package.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { contextExtensions } from '../../src/mls/ts-mls/view.ts'
import { crypto } from './attacker.ts'
import { type Agent, engine, hex, text } from './support.ts'

const { provider } = crypto

/** Another member, as far as an attacker deals with it. */
export type Victim = Pick<Agent, 'agentId' | 'key'>

/** A channel with a malicious member, who is not its owner. */
export interface Scene {
  readonly channelId: Uint8Array
  readonly ann: Agent
  readonly owner: Victim
  readonly bob: Victim
}

/** A forbidden commit, what it declares, and who says so if it is not its sender. */
export interface Forged {
  readonly commit: Uint8Array
  readonly declaration?: Partial<DeclarationFields>
  readonly declarer?: Uint8Array
}

/** The leaf of a member, as the attacker sees it. */
export function leafOf({ group }: Agent, { agentId }: Pick<Victim, 'agentId'>): number {
  const member = engine.facts(group).members.find((member) => hex(member.agentId) === hex(agentId))
  return member?.leaf ?? assert.fail('no such member')
}

/** The removal of a member. */
export function remove(ann: Agent, victim: Pick<Victim, 'agentId'>): Proposal {
  return { proposalType: 'remove', remove: { removed: leafOf(ann, victim) } }
}

/** The addition of an agent, and its id. */
export async function add(
  name: string | Uint8Array,
  key: SignatureKeyPair = generateSignatureKeyPair(),
): Promise<[Proposal, Uint8Array]> {
  const identity = typeof name === 'string' ? text(name) : name
  const { publicPackage } = await makeKeyPackage(crypto, identity, key, Date.now())
  return [{ proposalType: 'add', add: { keyPackage: publicPackage } }, agentIdOf(key.publicKey)]
}

/** The addition of an agent whose KeyPackage has other extensions, and its id. */
async function addWith(
  name: string,
  change: (extensions: readonly Extension[]) => Extension[],
): Promise<[Proposal, Uint8Array]> {
  const key = generateSignatureKeyPair()
  const { publicPackage } = await makeKeyPackage(crypto, text(name), key, Date.now())
  const unsigned = { ...publicPackage, extensions: change(publicPackage.extensions) }
  const keyPackage = await signKeyPackage(unsigned, key.seed, provider.signature)
  return [{ proposalType: 'add', add: { keyPackage } }, agentIdOf(key.publicKey)]
}

function resized(extension: Extension | undefined, change: (data: Uint8Array) => Uint8Array): Extension {
  assert.ok(extension)
  return { ...extension, extensionData: change(extension.extensionData) }
}

/** A commit by the library alone, which does not know our rules. */
export async function bare(
  agent: Agent,
  extraProposals: Proposal[],
  change: { state?: Partial<ClientState>; provider?: CiphersuiteImpl; public?: boolean; psk?: boolean } = {},
): Promise<Uint8Array> {
  const state = { ...inside(agent.group).state, ...change.state }
  const pskIndex = { findPsk: () => new Uint8Array(32) }
  const { commit } = await createCommit(
    { state, cipherSuite: change.provider ?? provider, pskIndex },
    { extraProposals, ratchetTreeExtension: true, wireAsPublicMessage: change.public ?? false },
  )
  return encodeMlsMessage(commit)
}

/** The agent's state with another leaf of its own. */
export function withLeaf(agent: Agent, change: object): Partial<ClientState> {
  const { ratchetTree } = inside(agent.group).state
  const at = 2 * leafOf(agent, agent)
  const node = ratchetTree[at]
  assert.ok(node?.nodeType === 'leaf')
  return { ratchetTree: ratchetTree.with(at, { nodeType: 'leaf', leaf: { ...node.leaf, ...change } }) }
}

/** A proposal of the agent's GroupContext, with another content. */
export function contextOf({ group }: Agent, change: Partial<ChannelContext>): Proposal {
  return contextProposal(contextExtensions({ ...engine.facts(group).context, ...change }))
}

export function contextProposal(extensions: readonly Extension[]): Proposal {
  return { proposalType: 'group_context_extensions', groupContextExtensions: { extensions: [...extensions] } }
}

/** A commit with a path that changes the GroupContext, without our rules. */
export async function withContext(agent: Agent, proposals: readonly Proposal[]): Promise<Uint8Array> {
  const pskIndex = { findPsk: () => new Uint8Array(32) }
  const { commit } = await createContextCommit(crypto, inside(agent.group).state, proposals, pskIndex)
  return encodeMlsMessage(commit)
}

/** A Leave notice of a member, signed by it or by another key. */
export function notice(
  ann: Agent,
  victim: Victim,
  channelId: Uint8Array,
  { slot = 3n, signer = victim.key, leafKeys = [leafKeyOf(ann, victim)] }: Partial<NoticeOptions> = {},
): LeaveNoticeFields {
  const { publicKey } = victim.key
  return { publicKey, slot, leafKeys, signature: ed25519.signer(signer)(leaveBytes(channelId, { slot, leafKeys })) }
}

/** How a notice differs from a right one. */
interface NoticeOptions {
  readonly slot: bigint
  readonly signer: SignatureKeyPair
  readonly leafKeys: readonly Uint8Array[]
}

/** The encryption key of a member's leaf, as the attacker sees it. */
export function leafKeyOf({ group }: Agent, { agentId }: Pick<Victim, 'agentId'>): Uint8Array {
  const member = engine.facts(group).members.find((member) => hex(member.agentId) === hex(agentId))
  return member?.encryptionKey ?? assert.fail('no such member')
}

const psk: Proposal = {
  proposalType: 'psk',
  psk: { preSharedKeyId: { psktype: 'external', pskId: text('x'), pskNonce: new Uint8Array(32) } },
}

/** What each is, the rule that it breaks, and how it is made. */
export const FORBIDDEN: readonly (readonly [string, Rejection, (scene: Scene) => Promise<Forged>])[] = [
  [
    'a leaf takes another identity',
    'credential_changed',
    async ({ ann }) => ({
      commit: await bare(ann, [], {
        state: withLeaf(ann, { credential: { credentialType: 'basic', identity: text('admin') } }),
      }),
    }),
  ],
  [
    'a leaf takes another signature key',
    'signature_key_changed',
    async ({ ann }) => {
      const other = generateSignatureKeyPair()
      const sign = async (key: Uint8Array, bytes: Uint8Array): Promise<Uint8Array> =>
        provider.signature.sign(Buffer.from(bytes).includes('MLS 1.0 LeafNodeTBS') ? other.seed : key, bytes)
      const state = withLeaf(ann, { signaturePublicKey: other.publicKey })
      const signature = { ...provider.signature, sign }
      return { commit: await bare(ann, [], { state, provider: { ...provider, signature } }) }
    },
  ],
  [
    'a second leaf with the identity of a member',
    'identity_twice',
    async ({ ann }) => {
      const [proposal, agentId] = await add('owner')
      return { commit: await bare(ann, [proposal]), declaration: { adds: [agentId] } }
    },
  ],
  [
    'a second leaf with the signature key of a member',
    'signature_key_twice',
    async ({ ann, bob }) => {
      const [proposal, agentId] = await add('bob2', bob.key)
      const blind = { compareKeyPackages: () => false, compareKeyPackageToLeafNode: () => false }
      const state = { clientConfig: { ...CONFIG, keyPackageEqualityConfig: blind } }
      return { commit: await bare(ann, [proposal], { state }), declaration: { adds: [agentId] } }
    },
  ],
  [
    'an Add that pretends to be the founder leaf',
    'founder_added',
    async ({ ann }) => ({ commit: await bare(ann, [(await add(FOUNDER_IDENTITY))[0]]) }),
  ],
  [
    'a leaf that later joiners would not take',
    'capabilities_missing',
    async ({ ann }) => {
      const node = inside(ann.group).state.ratchetTree[2 * leafOf(ann, ann)]
      assert.ok(node?.nodeType === 'leaf')
      const capabilities = { ...node.leaf.capabilities, ciphersuites: [] }
      return { commit: await bare(ann, [], { state: withLeaf(ann, { capabilities }) }) }
    },
  ],
  ...(
    [
      ['without a key to seal its Welcome', () => []],
      ['whose key to seal its Welcome is cut off', ([key]) => [resized(key, (data) => data.subarray(0, -1))]],
      ['whose key to seal its Welcome has another version', ([key]) => [resized(key, (data) => data.with(0, 2))]],
      ['with two keys to seal its Welcome', (extensions) => [...extensions, ...extensions]],
    ] as readonly (readonly [string, (extensions: readonly Extension[]) => Extension[]])[]
  ).map(([what, change]): (typeof FORBIDDEN)[number] => [
    `an Add ${what}`,
    'seal_key_missing',
    async ({ ann }) => {
      const [proposal, agentId] = await addWith('cid', change)
      return { commit: await bare(ann, [proposal]), declaration: { adds: [agentId] } }
    },
  ]),
  [
    'the same GroupContext once more, by a member that may not change it',
    'ownership_without_right',
    async ({ ann, owner }) => ({
      commit: await withContext(ann, [contextOf(ann, {})]),
      declaration: { owner: owner.agentId },
    }),
  ],
  [
    'a member makes itself the owner',
    'ownership_without_right',
    async ({ ann }) => ({
      commit: await withContext(ann, [contextOf(ann, { owner: ann.agentId })]),
      declaration: { owner: ann.agentId },
    }),
  ],
  [
    'a member makes itself the standby',
    'ownership_without_right',
    async ({ ann, owner }) => ({
      commit: await withContext(ann, [contextOf(ann, { standby: ann.agentId })]),
      declaration: { owner: owner.agentId, standby: ann.agentId },
    }),
  ],
  [
    'a member gives the channel to another',
    'ownership_without_right',
    async ({ ann, bob }) => ({
      commit: await withContext(ann, [contextOf(ann, { owner: bob.agentId })]),
      declaration: { owner: bob.agentId },
    }),
  ],
  [
    'the channel takes another name',
    'context_invalid',
    async ({ ann, owner }) => ({
      commit: await withContext(ann, [contextOf(ann, { name: parseChannelName('acme/support/other') })]),
      declaration: { owner: owner.agentId },
    }),
  ],
  [
    'a GroupContext with a flag that no one knows',
    'context_invalid',
    async ({ ann }) => {
      const { groupContext } = inside(ann.group).state
      const extensions = groupContext.extensions.map((each) => {
        if (each.extensionType !== CONTEXT_TYPE) return each
        return { ...each, extensionData: each.extensionData.with(1, 2) }
      })
      return { commit: await withContext(ann, [contextProposal(extensions)]) }
    },
  ],
  [
    'a GroupContext that requires nothing of later members',
    'context_invalid',
    async ({ ann }) => {
      const [, channel] = inside(ann.group).state.groupContext.extensions
      assert.ok(channel)
      return { commit: await withContext(ann, [contextProposal([channel])]) }
    },
  ],
  [
    'a new owner in the declaration alone',
    'declaration_differs',
    async ({ ann }) => ({ commit: await bare(ann, []), declaration: { owner: ann.agentId } }),
  ],
  [
    'a standby in the declaration alone',
    'declaration_differs',
    async ({ ann, owner }) => ({
      commit: await bare(ann, []),
      declaration: { owner: owner.agentId, standby: ann.agentId },
    }),
  ],
  [
    'a ReInit',
    'proposal_not_allowed',
    async ({ ann }) => ({
      commit: await bare(ann, [
        {
          proposalType: 'reinit',
          reinit: { groupId: text('x'), version: 'mls10', cipherSuite: provider.name, extensions: [] },
        },
      ]),
    }),
  ],
  [
    'a proposal of a type of its own',
    'proposal_not_allowed',
    async ({ ann }) => ({ commit: await bare(ann, [{ proposalType: 0xf123, proposalData: text('x') }]) }),
  ],
  [
    'a proposal by reference',
    'proposal_not_allowed',
    async ({ ann }) => {
      const [proposal, agentId] = await add('cid')
      const { newState } = await createProposal(inside(ann.group).state, false, proposal, provider)
      const { unappliedProposals } = newState
      return { commit: await bare(ann, [], { state: { unappliedProposals } }), declaration: { adds: [agentId] } }
    },
  ],
  ['a PreSharedKey where others stay', 'psk_misplaced', async ({ ann }) => ({ commit: await bare(ann, [psk]) })],
  ['a PublicMessage', 'not_a_commit', async ({ ann }) => ({ commit: await bare(ann, [], { public: true }) })],
  [
    'an external commit',
    'not_a_commit',
    async ({ ann }) => {
      const eve = await makeKeyPackage(crypto, text('eve'), generateSignatureKeyPair(), Date.now())
      const info = await createGroupInfoWithExternalPubAndRatchetTree(inside(ann.group).state, [], provider)
      const { publicPackage, privatePackage } = eve
      const joined = await joinGroupExternal(info, publicPackage, privatePackage, false, provider, undefined, CONFIG)
      const { publicMessage } = joined
      return { commit: encodeMlsMessage({ version: 'mls10', wireformat: 'mls_public_message', publicMessage }) }
    },
  ],
  ['an application message', 'not_a_commit', async ({ ann }) => ({ commit: ann.send('x') })],
  [
    'the owner is removed',
    'removes_owner',
    async ({ ann, owner }) => ({
      commit: await bare(ann, [remove(ann, owner)]),
      declaration: { removes: [owner.agentId] },
    }),
  ],
  [
    'the owner is removed with a notice of its own',
    'removes_owner',
    async ({ ann, owner, channelId }) => ({
      commit: await bare(ann, [remove(ann, owner)]),
      declaration: { removes: [owner.agentId], leaveNotices: [notice(ann, owner, channelId)] },
    }),
  ],
  [
    'a member removes another',
    'removes_without_right',
    async ({ ann, bob }) => ({ commit: await bare(ann, [remove(ann, bob)]), declaration: { removes: [bob.agentId] } }),
  ],
  [
    'a notice that the leaver did not sign',
    'leave_notice_invalid',
    async ({ ann, bob, channelId }) => ({
      commit: await bare(ann, [remove(ann, bob)]),
      declaration: { removes: [bob.agentId], leaveNotices: [notice(ann, bob, channelId, { signer: ann.key })] },
    }),
  ],
  [
    'a notice for another channel',
    'leave_notice_invalid',
    async ({ ann, bob }) => ({
      commit: await bare(ann, [remove(ann, bob)]),
      declaration: { removes: [bob.agentId], leaveNotices: [notice(ann, bob, new Uint8Array(16))] },
    }),
  ],
  [
    'a notice for another leaf than the leaver has',
    'leave_notice_invalid',
    async ({ ann, bob, channelId }) => ({
      commit: await bare(ann, [remove(ann, bob)]),
      declaration: {
        removes: [bob.agentId],
        leaveNotices: [notice(ann, bob, channelId, { leafKeys: [new Uint8Array(32).fill(9)] })],
      },
    }),
  ],
  [
    'a notice that names more leaves than one can have',
    'leave_notice_invalid',
    async ({ ann, bob, channelId }) => {
      const leafKeys = [new Uint8Array(32).fill(9), leafKeyOf(ann, bob), new Uint8Array(32).fill(8)]
      return {
        commit: await bare(ann, [remove(ann, bob)]),
        declaration: { removes: [bob.agentId], leaveNotices: [notice(ann, bob, channelId, { leafKeys })] },
      }
    },
  ],
  [
    'an Add that is not declared',
    'declaration_differs',
    async ({ ann }) => ({ commit: await bare(ann, [(await add('cid'))[0]]) }),
  ],
  [
    'a declared Add that the commit does not have',
    'declaration_differs',
    async ({ ann, bob }) => ({ commit: await bare(ann, []), declaration: { adds: [bob.agentId] } }),
  ],
  [
    'a vouch by a member that is not the owner',
    'vouches_without_right',
    async ({ ann }) => {
      const [proposal, agentId] = await add('dot')
      return { commit: await bare(ann, [proposal]), declaration: { adds: [agentId], vouches: [agentId] } }
    },
  ],
  [
    'a declaration of another agent',
    'declaration_of_another',
    async ({ ann, bob }) => ({ commit: await bare(ann, []), declarer: bob.agentId }),
  ],
]
