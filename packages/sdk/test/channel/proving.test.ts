/** Proofs in a channel: what is checked and for which place, what a crash keeps, and who may ask for one. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toHex } from '@static/protocol'
import { memberProofOf } from '../../src/channel/proving/member-proof.ts'
import { encodeShown } from '../../src/channel/proving/proof-frame.ts'
import { agentIdOf } from '../../src/mls/index.ts'
import type { ProofDesk } from '../../src/proofs/desk.ts'
import type { ProofContext } from '../../src/proofs/proof.ts'
import type { CheckedProof, Verdict } from '../../src/proofs/verdict.ts'
import { Apart } from '../support/apart.ts'
import { type Player, Stage } from '../support/stage.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** Where a proof was made for, as text: its agent, the owner, the channel and the place. */
function placeIn({ channelId, ownerId, publicKey, place }: ProofContext): string {
  return [toHex(agentIdOf(publicKey)), toHex(ownerId), toHex(channelId), String(place)].join(' ')
}

/** Believes every proof that was made for the place where it is shown. */
class Desk implements ProofDesk {
  readonly made: string[] = []
  readonly checked: string[] = []
  /** What is found about a good proof. */
  verdict: Verdict['state'] = 'checked'
  /** How long that counts. */
  until: number = CHECKED.until
  standing: ProofDesk['standing'] = (checked) => checked
  /** That of the last check. */
  unknownSince = 0
  /** Resolves when checks may go on. */
  gate: Promise<void> = Promise.resolve()

  make(show: string, context: ProofContext): Promise<Uint8Array> {
    this.made.push(`${show} ${placeIn(context)}`)
    return Promise.resolve(Buffer.from(placeIn(context)))
  }

  async check(proof: Uint8Array, context: ProofContext, unknownSince = 1): Promise<Verdict> {
    this.checked.push(placeIn(context))
    this.unknownSince = unknownSince
    await this.gate
    if (Buffer.from(proof).toString() !== placeIn(context)) return { state: 'invalid', reason: 'another place' }
    if (this.verdict === 'checked') return { ...CHECKED, until: this.until }
    return { state: this.verdict, reason: 'no keys', claimed: 'acme.example', unknownSince: unknownSince + 1 }
  }

  stop(): void {}
}

const CHECKED: CheckedProof = {
  state: 'checked',
  kind: 'domain',
  name: 'acme.example',
  subject: 'bob',
  until: 10 ** 15,
  facts: { root: 'acme.example', key: 'k', issuedAt: 1 },
}

interface Scene {
  readonly stage: Stage
  readonly desks: Readonly<Record<'ann' | 'bob' | 'carl', Desk>>
  readonly ann: Player
  readonly bob: Player
}

async function scene(apart: readonly string[] = []): Promise<Scene> {
  const desks = { ann: new Desk(), bob: new Desk(), carl: new Desk() }
  const players = Object.fromEntries(Object.entries(desks).map(([name, proofs]) => [name, { proofs, chance: () => 0 }]))
  const stage = await Stage.start(['ann', 'bob', 'carl', ...apart], { players, apart })
  return { stage, desks, ann: stage.player('ann'), bob: stage.player('bob') }
}

/** What is due is done, and what follows from it. */
async function pass(stage: Stage): Promise<void> {
  await stage.settleWithPrograms()
  await stage.advance(1, 1)
  await stage.settleWithPrograms()
}

function says(mal: Apart, kind: 12 | 13, payload: Uint8Array): void {
  const frame = mal.frame('', { payload })
  frame[1] = kind
  mal.say(frame)
}

test('a member shows its proof once it is told to, and again before verdicts lapse; others check it once', async () => {
  const { stage, desks, ann, bob } = await scene()
  await stage.advance(HOUR, 10 * MINUTE)
  assert.deepEqual(desks.bob.made, [], 'nothing without being told')
  bob.channel.proving.showing.choose({ show: 'acme.example' })
  await pass(stage)
  assert.deepEqual(desks.bob.made, [
    `acme.example ${bob.agentId} ${ann.agentId} ${ann.channel.id} ${bob.channel.proving.showing.place}`,
  ])
  assert.equal(ann.channel.proving.of(bob.agentId)?.state, 'checked')
  assert.deepEqual(
    ann.told('proof_checked').map(({ member }) => member),
    [bob.agentId],
  )
  for (let count = 0; count < 3; count++) void bob.send(`message ${count}`)
  await pass(stage)
  assert.equal(desks.ann.checked.length, 1)
  await stage.advance(11 * HOUR, HOUR)
  bob.channel.proving.tick()
  await pass(stage)
  assert.equal(desks.bob.made.length, 1)
  await stage.advance(2 * HOUR, HOUR)
  bob.channel.proving.tick()
  await pass(stage)
  assert.equal(desks.bob.made.length, 2)
  assert.equal(ann.told('proof_checked').length, 1, 'the same is not told twice')
})

test('only the owner can ask for a proof, of the agent that it names', async () => {
  const { stage, desks, ann, bob } = await scene(['mal'])
  const mal = new Apart(stage, 'mal')
  bob.channel.proving.showing.choose({ show: '' })
  await pass(stage)
  assert.equal(desks.bob.made.length, 1)
  await stage.advance(2 * MINUTE)
  says(mal, 12, Buffer.from(bob.agentId, 'hex'))
  ann.channel.proving.ask(stage.player('carl').agentId)
  await pass(stage)
  assert.equal(desks.bob.made.length, 1)
  assert.deepEqual(desks.carl.made, [], 'it shows nothing, whoever asks')
  ann.channel.proving.ask(bob.agentId)
  await pass(stage)
  assert.equal(desks.bob.made.length, 2)
})

test('the proof of another member, of another place or of no form is never believed', async () => {
  const { stage, desks, ann, bob } = await scene(['mal'])
  const mal = new Apart(stage, 'mal')
  bob.channel.proving.showing.choose({ show: '' })
  await pass(stage)
  const [made = ''] = desks.bob.made
  const proof = Buffer.from(made.trim())
  says(mal, 13, encodeShown({ place: bob.channel.proving.showing.place, proof }))
  await pass(stage)
  assert.equal(ann.channel.proving.of(mal.agentId)?.state, 'invalid')
  assert.ok(desks.ann.checked.at(-1)?.startsWith(mal.agentId), 'it is checked with the key of its sender')
  await stage.advance(MINUTE)
  // Beyond what this agent can know, it is taken for this agent's own place.
  const before = desks.ann.checked.length
  says(mal, 13, encodeShown({ place: 10 ** 6, proof }))
  await pass(stage)
  assert.ok(desks.ann.checked.at(-1)?.endsWith(` ${ann.channel.proving.showing.place}`))
  assert.equal(desks.ann.checked.length, before + 1)
  for (const payload of [new Uint8Array(8), new Uint8Array(8 + 4097), Buffer.alloc(20, 255)]) says(mal, 13, payload)
  await pass(stage)
  assert.equal(desks.ann.checked.length, before + 1, 'what is no proof is not checked')
  assert.equal(ann.channel.proving.of(bob.agentId)?.state, 'checked')
})

test('a proof that could not be decided does not undo one that holds; an invalid one does', async () => {
  const { stage, desks, ann, bob } = await scene()
  const again = async (): Promise<void> => {
    await stage.advance(2 * MINUTE)
    bob.channel.proving.showing.asked()
    await pass(stage)
  }
  bob.channel.proving.showing.choose({ show: '' })
  await pass(stage)
  desks.ann.verdict = 'unchecked'
  await again()
  await stage.advance(MINUTE)
  await pass(stage)
  assert.equal(desks.ann.checked.length, 2, 'it is not checked again and again')
  assert.equal(ann.channel.proving.of(bob.agentId)?.state, 'checked')
  // Its keys are there again: it is looked at again, without being shown.
  desks.ann.verdict = 'invalid'
  await stage.advance(2 * MINUTE)
  ann.channel.proving.review()
  await pass(stage)
  assert.equal(desks.ann.checked.length, 3)
  assert.equal(ann.channel.proving.of(bob.agentId)?.state, 'invalid')
  assert.deepEqual(
    ann.told('proof_lapsed').map(({ member }) => member),
    [bob.agentId],
  )
})

test('a proof that arrived before a crash is checked after it, and a verdict needs no second check', async () => {
  const { stage, desks, ann, bob } = await scene()
  desks.ann.gate = new Promise(() => {})
  bob.channel.proving.showing.choose({ show: '' })
  await pass(stage)
  assert.equal(desks.ann.checked.length, 1)
  assert.equal(ann.channel.proving.of(bob.agentId)?.state, 'unchecked')
  desks.ann.gate = Promise.resolve()
  const second = ann.restart()
  await pass(stage)
  assert.equal(second.channel.proving.of(bob.agentId)?.state, 'checked')
  const third = second.restart()
  await pass(stage)
  assert.equal(third.channel.proving.of(bob.agentId)?.state, 'checked')
  assert.equal(desks.ann.checked.length, 2)
  desks.ann.standing = () => ({ state: 'lapsed', reason: 'its keys are out of reach' })
  third.channel.proving.review()
  assert.equal(third.channel.proving.of(bob.agentId)?.state, 'lapsed')
})

test('a check that fails ends neither the agent nor the channel, and is made again', async () => {
  const { stage, desks, ann, bob } = await scene()
  const failing = Promise.withResolvers<void>()
  desks.ann.gate = failing.promise
  failing.promise.catch(() => {})
  failing.reject(new Error('too many open files'))
  bob.channel.proving.showing.choose({ show: '' })
  await pass(stage)
  assert.equal(ann.channel.proving.of(bob.agentId)?.state, 'unchecked')
  desks.ann.gate = Promise.resolve()
  await stage.advance(2000)
  ann.channel.proving.review()
  await pass(stage)
  assert.equal(ann.channel.proving.of(bob.agentId)?.state, 'checked')
})

test('a check is told since when the key of the member is unknown', async () => {
  const { stage, desks, ann, bob } = await scene()
  desks.ann.verdict = 'unchecked'
  bob.channel.proving.showing.choose({ show: '' })
  await pass(stage)
  assert.equal(desks.ann.unknownSince, 1)
  await stage.advance(2000)
  ann.channel.proving.review()
  await pass(stage)
  assert.equal(desks.ann.unknownSince, 2)
  const proof = ann.channel.proving.of(bob.agentId)
  assert.deepEqual(proof && Object.keys(memberProofOf(proof)), ['state', 'reason', 'claimed'])
})

test('a member that shows one proof after the other makes others check one a second', async () => {
  const { stage, desks } = await scene(['mal'])
  const mal = new Apart(stage, 'mal')
  for (let count = 0; count < 100; count++)
    says(mal, 13, encodeShown({ place: 1, proof: Buffer.from(`proof ${count}`) }))
  await pass(stage)
  assert.ok(desks.ann.checked.length <= 2, `${desks.ann.checked.length} checks`)
  await stage.advance(5000, 1000)
  await pass(stage)
  assert.ok(desks.ann.checked.length <= 4, `${desks.ann.checked.length} checks`)
})

test('a member that shows another proof during each check is judged all the same', async () => {
  const { stage, desks, ann } = await scene(['mal'])
  const mal = new Apart(stage, 'mal')
  for (let count = 0; count < 3; count++) {
    const gate = Promise.withResolvers<void>()
    desks.ann.gate = gate.promise
    says(mal, 13, encodeShown({ place: 1, proof: Buffer.from(`proof ${count}`) }))
    await stage.advance(2000)
    await pass(stage)
    assert.equal(desks.ann.checked.length, count + 1)
    says(mal, 13, encodeShown({ place: 1, proof: Buffer.from(`during the check ${count}`) }))
    await pass(stage)
    gate.resolve()
    await pass(stage)
    assert.equal(ann.channel.proving.of(mal.agentId)?.state, 'invalid')
  }
  await stage.advance(2000)
  await pass(stage)
  assert.equal(desks.ann.checked.length, 4, 'the last one as well')
})

test('keys that come within a second of a check are not missed', async () => {
  const { stage, desks, ann, bob } = await scene()
  desks.ann.verdict = 'unchecked'
  bob.channel.proving.showing.choose({ show: '' })
  await pass(stage)
  assert.equal(ann.channel.proving.of(bob.agentId)?.state, 'unchecked')
  desks.ann.verdict = 'checked'
  ann.channel.proving.review()
  await pass(stage)
  assert.equal(desks.ann.checked.length, 1)
  await stage.advance(1000)
  await pass(stage)
  assert.equal(ann.channel.proving.of(bob.agentId)?.state, 'checked')
  assert.equal(desks.ann.checked.length, 2)
})

test('for those that join later, a proof is shown again at most every ten minutes', async () => {
  const { stage, desks, bob } = await scene()
  const { showing } = bob.channel.proving
  showing.joined()
  await stage.advance(HOUR, 10 * MINUTE)
  assert.deepEqual(desks.bob.made, [], 'nothing without being told')
  showing.choose({ show: '' })
  await pass(stage)
  for (let minute = 1; minute < 10; minute++) {
    showing.joined()
    await stage.advance(MINUTE)
    await pass(stage)
    assert.equal(desks.bob.made.length, 1, `minute ${minute}`)
  }
  await stage.advance(2 * MINUTE)
  await pass(stage)
  assert.equal(desks.bob.made.length, 2)
})

test('a proof that was shown while another agent took the channel over is soon shown again', async () => {
  const { stage, desks, ann, bob } = await scene()
  const { proving } = bob.channel
  proving.showing.choose({ show: '' })
  await pass(stage)
  const nobody = { by: ann.agentId, added: [], removed: [], left: 0, vouched: [], byInvite: [] }
  proving.change({ ...nobody, formerOwner: ann.agentId })
  await stage.advance(59_000)
  await pass(stage)
  assert.equal(desks.bob.made.length, 1, 'not at once')
  await stage.advance(3000)
  await pass(stage)
  assert.equal(desks.bob.made.length, 2)
})

test('a verdict that is not renewed lapses at its end, which is told once, and comes back with another proof', async () => {
  const { stage, desks, ann, bob } = await scene()
  desks.ann.until = stage.now + HOUR
  bob.channel.proving.showing.choose({ show: '' })
  await pass(stage)
  await stage.advance(59 * MINUTE, MINUTE)
  ann.channel.proving.tick()
  assert.equal(ann.told('proof_lapsed').length, 0)
  await stage.advance(2 * MINUTE)
  for (let ticks = 0; ticks < 3; ticks++) ann.channel.proving.tick()
  assert.deepEqual(
    ann.told('proof_lapsed').map(({ member, proof }) => [member, proof.state]),
    [[bob.agentId, 'lapsed']],
  )
  desks.ann.until = CHECKED.until
  bob.channel.proving.showing.asked()
  await pass(stage)
  assert.equal(ann.told('proof_checked').length, 2)
})

test('a kill between the reason to show a proof and its frame does not lose it', async () => {
  const { stage, desks, bob } = await scene()
  stage.refuse = (player, body) =>
    player.name === 'bob' && body.case === 'sendMessage' ? { code: 'unavailable', retryAfterMs: HOUR } : undefined
  bob.channel.proving.showing.choose({ show: '' })
  await pass(stage)
  const made = desks.bob.made.length
  stage.refuse = () => undefined
  const again = bob.restart()
  await pass(stage)
  await stage.advance(11 * MINUTE)
  again.channel.proving.tick()
  await pass(stage)
  assert.ok(desks.bob.made.length >= made)
  assert.equal(stage.player('ann').channel.proving.of(bob.agentId)?.state, 'checked')
})
