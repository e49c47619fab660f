/** Lists of invites, claims and join requests of a malicious member, and of one who has the token of an invite. */
import { create } from '@bufbuild/protobuf'
import { fromHex, toHex } from '@static/protocol'
import { type JoinRequest, JoinRequestSchema } from '@static/protocol/relay'
import { encodeClaims, MOST_CLAIMED } from '../../src/admitting/claims.ts'
import { encodeList, encodeListFrame, type ListedInvite, listBytes } from '../../src/admitting/invite-list.ts'
import { sealRequest } from '../../src/joining/request.ts'
import { admitAsMember } from '../../src/admitting/admit.ts'
import { ed25519 } from '../../src/mls/index.ts'
import { add, FORBIDDEN } from '../mls/forbidden-commits.ts'
import { Agent, NAME } from '../mls/support.ts'
import type { Player } from '../support/stage.ts'
import type { Attack, Scene } from './attack.ts'
import { frameOf } from './messages.ts'

const FLOOD = 40

/** A list of the attacker's, in place of the owner's. */
function listOf({ attacker, owner, invite }: Scene, signs: boolean): Uint8Array {
  const own: ListedInvite = { ...invite.listed, maxUses: 250, ...attacker.pick([{}, { members: attacker.noise(32) }]) }
  const invites = attacker.pick([[], [own], Array.from({ length: attacker.pick([16, 17]) }, () => own)])
  const slot = attacker.pick([0, attacker.stage.position.slot, 2 ** 52])
  const list = { number: attacker.pick([2, 1000, 2 ** 52]), slot, invites }
  const known = owner.store.load().channels[0]?.inviteList?.list ?? new Uint8Array()
  const signature = signs
    ? ed25519.signer(attacker.mls.key)(listBytes(attacker.stage.channelId, list))
    : attacker.pick([attacker.noise(64), known.slice(-64)])
  return Buffer.concat([encodeList(list), signature])
}

/** Says a claim for all of these, and adds them. */
async function addClaimed(scene: Scene, invite: string, skips: boolean): Promise<ReturnType<Attack[1]>> {
  const { attacker, stage } = scene
  const made = await Promise.all([0, 1].map((at) => add(`ally ${stage.position.index} ${at}`)))
  const agents = made.map(([, agentId]) => agentId)
  attacker.say(frameOf(attacker, 'claim', encodeClaims(agents.map((agent) => ({ invite, agent: toHex(agent) })))))
  const { commit, next } = await attacker.make(made.map(([proposal]) => proposal))
  attacker.commit(skips ? attacker.spoil(commit) : commit, { adds: agents })
  return skips ? { skipped: true } : { followed: next }
}

/** The relay gives a member these requests. */
function ask({ stage }: Scene, player: Player, requests: readonly JoinRequest[]): void {
  const timers = { wait: (ms: number) => new Promise<void>((resolve) => void player.later(ms, resolve)) }
  void admitAsMember({ context: player, timers } as never, player.channel, requests)
  stage.now += 4000
}

function requestOf(
  { stage, invite, owner }: Scene,
  agentId: Uint8Array,
  keyPackage: Uint8Array,
  channelId: Uint8Array = stage.channelId,
): JoinRequest {
  const place = { channelId, name: NAME, owner: fromHex(owner.agentId) }
  const box = sealRequest(invite.keys, place, { nonce: new Uint8Array(16), keyPackage })
  return create(JoinRequestSchema, { inviteId: invite.keys.inviteId, agentId, box })
}

export const ADMISSIONS: readonly Attack[] = [
  [
    'a list of invites that the owner has not signed',
    (scene) => {
      const { attacker, victim, owner } = scene
      // The owner takes none at all.
      if (victim === owner) return undefined
      for (let round = 0; round < 4; round++) {
        const signed = listOf(scene, attacker.below(2) === 0)
        const counts = Array.from({ length: signed[16] ?? 0 }, () => attacker.pick([0, 1, undefined]))
        attacker.say(frameOf(attacker, 'invites', encodeListFrame(signed, scene.stage.position.slot, counts)))
      }
      return {}
    },
  ],
  [
    "the owner's list with other counts",
    ({ attacker, owner, victim, stage }) => {
      const known = owner.store.load().channels[0]?.inviteList?.list
      if (!known || victim === owner) return undefined
      const count = attacker.pick([0, 1, 250, 0xffff_fffe])
      attacker.say(frameOf(attacker, 'invites', encodeListFrame(known, stage.position.slot, [count])))
      return {}
    },
  ],
  ['accomplices by a claim', (scene) => addClaimed(scene, scene.invite.listed.id, false)],
  ['accomplices by an invite that there is not', (scene) => addClaimed(scene, toHex(scene.attacker.noise(16)), false)],
  ['a claim, and a commit that no one follows', (scene) => addClaimed(scene, scene.invite.listed.id, true)],
  [
    'a claim, and a commit that is forbidden',
    async ({ stage, attacker, owner, victim, invite }) => {
      if (victim === owner) return undefined
      const claims = [{ invite: invite.listed.id, agent: victim.agentId }]
      attacker.say(frameOf(attacker, 'claim', encodeClaims(claims)))
      const [, reason, forge] = attacker.pick(FORBIDDEN.filter(([, why]) => why !== 'declaration_of_another'))
      const keys = ({ agentId, key }: Player) => ({ agentId: fromHex(agentId), key })
      const place = { channelId: stage.channelId, ann: attacker.mls, owner: keys(owner), bob: keys(victim) }
      const { commit, declaration } = await forge(place)
      attacker.commit(commit, declaration)
      return { skipped: reason }
    },
  ],
  [
    'a flood of claims',
    ({ attacker, invite }) => {
      for (let round = 0; round < FLOOD; round++) {
        const agents = Array.from({ length: MOST_CLAIMED }, () => toHex(attacker.noise(32)))
        const claims = agents.map((agent) => ({ invite: invite.listed.id, agent }))
        attacker.say(frameOf(attacker, 'claim', encodeClaims(claims)))
      }
      return {}
    },
  ],
  [
    'join requests that add no one',
    async (scene) => {
      const { attacker, victim, owner } = scene
      const [stranger, other] = [new Agent('stranger'), new Agent('other')]
      const { keyPackage } = await stranger.keyPackage()
      const honest = requestOf(scene, stranger.agentId, keyPackage)
      const requests = [
        // The KeyPackage of someone else, for another channel or invite, and nonsense.
        requestOf(scene, other.agentId, keyPackage),
        requestOf(scene, stranger.agentId, keyPackage, attacker.noise(16)),
        { ...honest, inviteId: attacker.noise(16) },
        { ...honest, box: attacker.spoil(honest.box) },
        { ...honest, box: attacker.noise(attacker.size(16_384)) },
        requestOf(scene, stranger.agentId, attacker.spoil(keyPackage)),
        requestOf(scene, stranger.agentId, attacker.noise(300)),
      ]
      for (const player of [victim, owner]) ask(scene, player, requests)
      return {}
    },
  ],
]
