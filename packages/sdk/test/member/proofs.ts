/** Proofs that a malicious member shows: made up, copied from others, or its own from elsewhere. */
import { fromHex } from '@static/protocol'
import { encodeAsked, encodeShown } from '../../src/channel/proving/proof-frame.ts'
import { MAX_PROOF_BYTES } from '../../src/proofs/proof.ts'
import type { Attack, Scene } from './attack.ts'
import { frameOf } from './messages.ts'

/** A place that the attacker may claim. */
function placeIn({ attacker, stage }: Scene): number {
  return attacker.pick([0, 1, stage.position.index, attacker.below(stage.position.index + 2), 2 ** 52])
}

function shows(scene: Scene, place: number, proof: Uint8Array): void {
  const { attacker } = scene
  attacker.say(frameOf(attacker, 'proof', encodeShown({ place, proof })))
}

export const PROOFS: readonly Attack[] = [
  [
    'a proof that it has made up',
    (scene) => {
      const { attacker } = scene
      for (let round = 0; round < 3; round++) {
        const made = { name: 'chief', place: 'anywhere', mac: '00'.repeat(32) }
        const proofs = [Buffer.from(JSON.stringify(made)), attacker.noise(1 + attacker.size(MAX_PROOF_BYTES))]
        shows(scene, placeIn(scene), attacker.pick(proofs))
      }
      return {}
    },
  ],
  [
    'the proof of another member, and then what it was before',
    (scene) => {
      const { attacker, office } = scene
      const shown = office?.shown ?? []
      if (shown.length === 0) return undefined
      for (let round = 0; round < 2; round++) shows(scene, placeIn(scene), attacker.pick(shown))
      return {}
    },
  ],
  [
    'its own proof from another channel, owner or stay',
    (scene) => {
      const { attacker, stage, office } = scene
      if (!office) return undefined
      const place = 1 + stage.position.index + attacker.below(100)
      const here = {
        channelId: stage.channelId,
        ownerId: fromHex(scene.owner.agentId),
        publicKey: attacker.mls.key.publicKey,
        place,
      }
      const elsewhere = attacker.pick([
        { ...here, channelId: attacker.noise(16) },
        { ...here, ownerId: attacker.noise(32) },
        { ...here, publicKey: attacker.noise(32) },
        { ...here, place: attacker.noise(32) },
        here,
      ])
      shows(scene, place, office.issue('mal', elsewhere))
      return {}
    },
  ],
  [
    'demands for proofs',
    (scene) => {
      const { attacker, victim, owner } = scene
      const asked = attacker.pick([victim.agentId, owner.agentId, attacker.agentId])
      for (let round = 0; round < 3; round++) attacker.say(frameOf(attacker, 'prove', encodeAsked(asked)))
      return {}
    },
  ],
]
