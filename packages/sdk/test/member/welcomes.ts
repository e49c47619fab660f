/** Welcomes of a malicious member to an agent that expects to be added to the channel. */
import assert from 'node:assert/strict'
import { createCommit, type Welcome } from 'ts-mls'
import type { NewKeyPackage } from '../../src/mls/engine.ts'
import { capabilitiesOf } from '../../src/mls/ts-mls/config.ts'
import { decodeMessage, encodeWelcome } from '../../src/mls/ts-mls/message.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { crypto } from '../mls/attacker.ts'
import { withLeaf } from '../mls/forbidden-commits.ts'
import { sealedFor } from '../mls/sealing.ts'
import { Agent as MlsAgent, engine, NAME } from '../mls/support.ts'
import { fakeGroup } from '../support/fake-group.ts'
import type { Attack, Scene } from './attack.ts'

/** The newcomer refuses a Welcome. */
async function refused(
  { stage, owner }: Scene,
  make: (keyPackage: Uint8Array) => Promise<Uint8Array>,
  message?: RegExp,
): Promise<Record<string, never>> {
  const newcomer = new MlsAgent('newcomer')
  const own = await newcomer.keyPackage()
  const expected = { channelId: stage.channelId, name: NAME, owner: Buffer.from(owner.agentId, 'hex') }
  const welcome = await make(own.keyPackage)
  const invalid = { code: 'invalid_welcome', ...(message ? { message } : {}) }
  await assert.rejects(newcomer.join(welcome, own, expected), invalid, 'a forged Welcome is accepted')
  return {}
}

async function ownerPackage({ owner }: Scene): Promise<{ agentId: Uint8Array; keyPackage: Uint8Array }> {
  const made: NewKeyPackage = await engine.generateKeyPackage(owner.identity, owner.key, Date.now())
  return { agentId: Buffer.from(owner.agentId, 'hex'), keyPackage: made.keyPackage }
}

/** A Welcome into the real group, with the attacker's leaf changed. */
async function welcomeFrom({ attacker }: Scene, victim: Uint8Array, leaf: object): Promise<Welcome> {
  const state = { ...inside(attacker.mls.group).state, ...withLeaf(attacker.mls, leaf) }
  const { keyPackage } = decodeMessage('mls_key_package', victim) ?? assert.fail('no KeyPackage')
  const { welcome } = await createCommit(
    { state, cipherSuite: crypto.provider },
    { extraProposals: [{ proposalType: 'add', add: { keyPackage } }], ratchetTreeExtension: true },
  )
  return welcome ?? assert.fail('no Welcome')
}

async function realWelcome(scene: Scene, victim: Uint8Array, leaf: object): Promise<Uint8Array> {
  return await sealedFor(victim, await welcomeFrom(scene, victim, leaf))
}

export const WELCOMES: readonly Attack[] = [
  [
    'a Welcome into a group of its own with the owner’s KeyPackage in it',
    async (scene) => {
      const owner = await ownerPackage(scene)
      const { channelId } = scene.stage
      return await refused(scene, async (victim) => (await fakeGroup({ channelId, name: NAME, owner, victim })).welcome)
    },
  ],
  [
    'a Welcome into another channel',
    async (scene) => {
      const channelId = scene.attacker.noise(16)
      const owner = await ownerPackage(scene)
      const make = async (victim: Uint8Array): Promise<Uint8Array> =>
        (await fakeGroup({ channelId, name: NAME, owner, victim })).welcome
      return await refused(scene, make, /another channel/)
    },
  ],
  [
    'a Welcome into a group that it owns itself',
    async (scene) => {
      const { channelId } = scene.stage
      return await refused(scene, async (victim) => (await fakeGroup({ channelId, name: NAME, victim })).welcome)
    },
  ],
  [
    'a Welcome into a tree with a leaf out of bounds',
    async (scene) => {
      const ours = capabilitiesOf(crypto.suite)
      const extensions = Array.from(
        { length: scene.attacker.pick([33, 100, 3000]) },
        (_, at) => ours.extensions[at] ?? 0x0a0a,
      )
      return await refused(scene, (victim) => realWelcome(scene, victim, { capabilities: { ...ours, extensions } }))
    },
  ],
  [
    'a Welcome that is not sealed',
    async (scene) =>
      await refused(scene, async (victim) => encodeWelcome(await welcomeFrom(scene, victim, {})), /not sealed/),
  ],
  [
    'a damaged Welcome',
    async (scene) => await refused(scene, async (victim) => scene.attacker.spoil(await realWelcome(scene, victim, {}))),
  ],
  [
    'noise as a Welcome',
    async (scene) => await refused(scene, async () => scene.attacker.noise(scene.attacker.size(131_072))),
  ],
]
