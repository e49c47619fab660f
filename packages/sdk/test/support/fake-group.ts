/**
 * A group that an attacker has made by itself, for whoever's KeyPackages it has got: of any name and id, with anybody
 * named as its owner and that owner's own KeyPackage on leaf 0.
 */
import { randomBytes } from 'node:crypto'
import type { ClientState, Proposal } from 'ts-mls'
import { createGroup, joinGroup, makePskIndex } from 'ts-mls/clientState.js'
import { createCommit } from 'ts-mls/createCommit.js'
import { create } from '@bufbuild/protobuf'
import { type ChannelName } from '@static/protocol'
import { type DeliverWelcome, DeliverWelcomeSchema } from '@static/protocol/relay'
import { generateSignatureKeyPair } from '@static/node/ed25519'
import { CONFIG } from '../../src/mls/ts-mls/config.ts'
import { makeKeyPackage } from '../../src/mls/ts-mls/key-package.ts'
import { decodeMessage } from '../../src/mls/ts-mls/message.ts'
import { adopt } from '../../src/mls/ts-mls/state.ts'
import { ownedBy } from '../../src/mls/channel-context.ts'
import { contextExtensions } from '../../src/mls/ts-mls/view.ts'
import type { InviteSeal } from '../../src/mls/sealed-welcome.ts'
import { crypto } from '../mls/attacker.ts'
import { sealedFor } from '../mls/sealing.ts'
import { Agent as MlsAgent } from '../mls/support.ts'

/** What the attacker pretends. */
export interface Pretence {
  readonly channelId: Uint8Array
  readonly name: ChannelName
  /** The agent id that the GroupContext names, and a KeyPackage of that agent; without it the attacker itself. */
  readonly owner?: { readonly agentId: Uint8Array; readonly keyPackage: Uint8Array }
  /** A KeyPackage of the victim. */
  readonly victim: Uint8Array
  /** The invite that the Welcome is sealed with. */
  readonly invite?: InviteSeal
  /** The attacker, if it was somebody before. */
  readonly maker?: MlsAgent
  /** The epoch that the Welcome leads to, instead of the third. */
  readonly epoch?: bigint
}

/** The Welcome for the victim, and the attacker in its group. */
export async function fakeGroup(pretence: Pretence): Promise<{ welcome: Uint8Array; mallory: MlsAgent }> {
  const { channelId, name, owner, victim, maker: mallory = new MlsAgent('mallory'), epoch = 3n } = pretence
  const { provider } = crypto
  const first = await makeKeyPackage(crypto, Buffer.from('first'), generateSignatureKeyPair(), Date.now())
  const second = await makeKeyPackage(crypto, mallory.identity, mallory.key, Date.now())
  const extensions = contextExtensions({ name, ...ownedBy(owner?.agentId ?? mallory.agentId) })
  const group = await createGroup(channelId, first.publicPackage, first.privatePackage, extensions, provider, CONFIG)
  const made = { ...group, groupContext: { ...group.groupContext, epoch: epoch - 3n } }
  const added = await commit(made, [{ proposalType: 'add', add: { keyPackage: second.publicPackage } }])
  let state = await joinGroup(
    added.welcome!,
    second.publicPackage,
    second.privatePackage,
    makePskIndex(undefined, {}),
    provider,
    undefined,
    undefined,
    CONFIG,
  )
  // Leaf 0 is given to the owner.
  const leaf0: Proposal[] = owner ? [adding(owner.keyPackage)] : []
  state = (await commit(state, [{ proposalType: 'remove', remove: { removed: 0 } }, ...leaf0])).newState
  const last = await commit(state, [adding(victim)])
  mallory.enter(adopt(crypto, last.newState, mallory.key))
  return { welcome: await sealedFor(victim, last.welcome!, pretence.invite), mallory }
}

/** How the relay would deliver it. */
export function delivering(
  { channelId, name, owner }: Pretence,
  welcome: Uint8Array,
  invite: { inviteId?: Uint8Array; tag?: Uint8Array } = {},
): DeliverWelcome {
  return create(DeliverWelcomeSchema, {
    channelId,
    name,
    slot: 1n,
    sender: owner?.agentId ?? randomBytes(32),
    owner: owner?.agentId ?? randomBytes(32),
    welcome: { welcome, ...invite },
    position: { index: 2n, hash: randomBytes(32), slot: 2n },
  })
}

function adding(keyPackage: Uint8Array): Proposal {
  return { proposalType: 'add', add: { keyPackage: decodeMessage('mls_key_package', keyPackage)!.keyPackage } }
}

async function commit(
  state: ClientState,
  extraProposals: Proposal[],
): Promise<Awaited<ReturnType<typeof createCommit>>> {
  return await createCommit({ state, cipherSuite: crypto.provider }, { extraProposals, ratchetTreeExtension: true })
}
