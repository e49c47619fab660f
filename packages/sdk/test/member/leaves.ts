/** Leave notices of a malicious member: valid ones, and such as name other leaves, slots and keys. */
import { MAX_LEAF_KEYS, leaveBytes } from '@static/protocol'
import type { LeaveNotice } from '@static/protocol/relay'
import { ed25519 } from '../../src/mls/index.ts'
import { engine } from '../mls/support.ts'
import type { Attack, Scene } from './attack.ts'

/** Says that it leaves. */
function leave({ attacker, stage }: Scene, slot: number, leafKeys: Uint8Array[], spoil: boolean): void {
  const { key } = attacker.mls
  const signed = ed25519.signer(key)(leaveBytes(stage.channelId, { slot: BigInt(slot), leafKeys }))
  const notice: LeaveNotice = {
    $typeName: 'static.relay.v1.LeaveNotice',
    publicKey: key.publicKey,
    slot: BigInt(slot),
    leafKeys,
    signature: spoil ? attacker.noise(64) : signed,
  }
  stage.append({ kind: 'leave', sender: attacker.agentId, slot: stage.position.slot, notice })
}

export const LEAVES: readonly Attack[] = [
  [
    'a valid notice',
    (scene) => {
      const { encryptionKey } = engine.facts(scene.attacker.mls.group).own
      leave(scene, scene.stage.position.slot, [Uint8Array.from(encryptionKey)], false)
      return { last: true }
    },
  ],
  [
    'a notice of another leaf, slot or key',
    (scene) => {
      const { attacker, stage } = scene
      const { encryptionKey } = engine.facts(attacker.mls.group).own
      const own = Uint8Array.from(encryptionKey)
      const leafKeys = attacker.pick([[], [attacker.noise(32)], Array.from({ length: MAX_LEAF_KEYS + 1 }, () => own)])
      leave(scene, stage.position.slot + attacker.pick([0, 1, 1000]), leafKeys, attacker.below(2) === 0)
      return { last: true }
    },
  ],
]
