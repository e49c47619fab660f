/** Take-overs of a malicious member that the owner has named as its standby. Nobody follows any but a whole one. */
import { createCommit, encodeMlsMessage, type Proposal } from 'ts-mls'
import { fromHex, maxCommitBytes } from '@static/protocol'
import { nameStandby } from '../../src/agent/ownership.ts'
import { ownedBy } from '../../src/mls/channel-context.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { crypto } from '../mls/attacker.ts'
import { add, contextOf, remove, withContext } from '../mls/forbidden-commits.ts'
import { engine, hex } from '../mls/support.ts'
import type { Attack, Effect, Scene } from './attack.ts'

/** An attack of the standby: the owner names the attacker first, or offers it the channel. */
function asStandby(name: string, attack: (scene: Scene) => Promise<Effect>): Attack {
  return [
    `as the standby, ${name}`,
    async (scene) => {
      const { stage, attacker, owner } = scene
      // It waits for its application.
      if (owner.channel.committer.refusal) return undefined
      const naming = nameStandby(owner.channel, attacker.agentId, attacker.below(2) === 0)
      naming.catch(() => {})
      await stage.settle()
      await naming
      await attacker.follow()
      const { standby } = engine.facts(attacker.mls.group).context
      if (!standby || hex(standby) !== attacker.agentId) return undefined
      return { ...(await attack(scene)), named: true }
    },
  ]
}

function takeOver({ attacker: { mls } }: Scene): Proposal {
  return contextOf(mls, ownedBy(mls.agentId))
}

export const HANDS: readonly Attack[] = [
  asStandby('noise as a take-over', async ({ stage, attacker }) => {
    const noise = attacker.noise(attacker.size(maxCommitBytes(stage.players.length)))
    attacker.commit(noise, { owner: attacker.mls.agentId })
    return { skipped: true }
  }),
  asStandby('a damaged take-over', async (scene) => {
    const { attacker } = scene
    const commit = await withContext(attacker.mls, [takeOver(scene)])
    attacker.commit(attacker.spoil(commit), { owner: attacker.mls.agentId })
    return { skipped: true }
  }),
  asStandby('a take-over without a path', async (scene) => {
    const { attacker } = scene
    const { commit } = await createCommit(
      { state: inside(attacker.mls.group).state, cipherSuite: crypto.provider },
      { extraProposals: [takeOver(scene)] },
    )
    attacker.commit(encodeMlsMessage(commit), { owner: attacker.mls.agentId })
    return { skipped: 'invalid' }
  }),
  asStandby('a take-over that is declared as something else', async (scene) => {
    const { attacker, owner } = scene
    const commit = await withContext(attacker.mls, [takeOver(scene)])
    const { agentId } = attacker.mls
    attacker.commit(
      commit,
      attacker.pick([{}, { owner: fromHex(owner.agentId) }, { owner: agentId, standby: agentId }]),
    )
    return { skipped: 'declaration_differs' }
  }),
  asStandby('a re-key that is declared as a take-over', async ({ attacker }) => {
    const { commit } = await attacker.make([])
    attacker.commit(commit, { owner: attacker.mls.agentId })
    return { skipped: 'declaration_differs' }
  }),
  asStandby('the channel is given to another', async ({ attacker, victim, owner }) => {
    const heir = victim === owner ? attacker.noise(32) : fromHex(victim.agentId)
    attacker.commit(await withContext(attacker.mls, [contextOf(attacker.mls, ownedBy(heir))]), { owner: heir })
    return { skipped: 'ownership_without_right' }
  }),
  asStandby('a take-over that names a standby', async ({ attacker, owner }) => {
    const { agentId } = attacker.mls
    const standby = fromHex(owner.agentId)
    attacker.commit(await withContext(attacker.mls, [contextOf(attacker.mls, { owner: agentId, standby })]), {
      owner: agentId,
      standby,
    })
    return { skipped: 'ownership_without_right' }
  }),
  asStandby('a take-over that removes the owner', async (scene) => {
    const { attacker, owner } = scene
    const { agentId } = attacker.mls
    const removal = remove(attacker.mls, { agentId: fromHex(owner.agentId) })
    const proposals = attacker.pick([
      [removal, takeOver(scene)],
      [takeOver(scene), removal],
    ])
    attacker.commit(await withContext(attacker.mls, proposals), { owner: agentId, removes: [fromHex(owner.agentId)] })
    return { skipped: 'removes_owner' }
  }),
  asStandby('a take-over that adds an accomplice', async (scene) => {
    const { attacker, stage } = scene
    const [adding, agentId] = await add(`heir ${stage.position.index}`)
    const commit = await withContext(attacker.mls, [adding, takeOver(scene)])
    attacker.commit(commit, { owner: attacker.mls.agentId, adds: [agentId] })
    return { skipped: 'context_misplaced' }
  }),
]
