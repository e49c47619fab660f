/**
 * Everybody dies, one boundary after the other, while the channel changes hands: before a commit is on disk, after it was
 * sent and before it is answered, after it was accepted and before it is adopted. Whenever that is, the relay's books name
 * one owner, with its account, name and bytes, and in the end all agree with them.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IS_WHOLE } from '@static/testkit/whole'
import type { Channel } from '../../src/public/channel.ts'
import { parseAgentId } from '../../src/public/fingerprint.ts'
import { NAME } from './cast.ts'
import type { Person } from './person.ts'
import { Scene } from './scene.ts'

/** Of the owner and the others. */
const ACCOUNTS = ['acme', 'beta', 'gamma']
const STEPS = ['setStandby', 'transfer', 'takeOver'] as const
/** Boundaries between one death and the next. */
const STRIDE = IS_WHOLE ? 1 : 3

type Step = (typeof STEPS)[number]

/** A channel of three accounts that changes hands between two of them. */
class Hands {
  readonly #scene: Scene
  readonly #id: string
  readonly #bystander: Person
  #owner: Person
  #standby: Person
  readonly wrong: string[] = []

  private constructor(scene: Scene, id: string, [standby, bystander]: readonly Person[]) {
    assert.ok(standby && bystander)
    this.#scene = scene
    this.#id = id
    this.#owner = scene.owner
    this.#standby = standby
    this.#bystander = bystander
  }

  static async start(scene: Scene): Promise<Hands> {
    const { owner, others } = scene
    for (const person of others) {
      const token = await scene.call(owner, (manager) => manager.invite(NAME))
      await scene.call(person, (manager) => manager.joinWithToken(NAME, token, 60))
    }
    for (const person of [owner, ...others]) await scene.call(person, ({ client }) => client.channel(NAME).send('here'))
    return new Hands(scene, owner.recordOf(NAME)?.id ?? assert.fail(), others)
  }

  /** Takes a step in which somebody dies at a boundary, if it gets that far. Returns whether it did. */
  async take(step: Step, victim: Victim, boundary: number): Promise<boolean> {
    const scene = this.#scene
    const actor = step === 'takeOver' ? this.#standby : this.#owner
    const person = this.#victim(victim)
    const { machine } = person ?? scene.relay
    machine.arm(boundary)
    machine.onDeath(() => this.#look(`${step}, as ${victim} dies at ${boundary}`))
    let isOver = false
    const over = (): boolean => (isOver = true)
    this.#act(actor, step).then(over, over)
    const isDone = (): boolean => machine.isDead || (isOver && this.#disagreement === undefined)
    await scene.until(`${step} does not end`, isDone)
    const hasDied = machine.isDead
    machine.arm(undefined)
    if (hasDied && person) await scene.start(person)
    else if (hasDied) scene.relay.restart()
    // Its program does not know how far it came.
    await scene.end(this.#act(actor, step))
    await scene.until(`after ${step}: ${this.#disagreement}`, () => this.#disagreement === undefined)
    if (step === 'takeOver') [this.#owner, this.#standby] = [this.#standby, this.#owner]
    this.#look(`after ${step}`)
    assert.deepEqual(this.wrong, [])
    assert.equal(scene.relay.disk.ownership(this.#id)?.account, this.#owner.account)
    return hasDied
  }

  #victim(victim: Victim): Person | undefined {
    switch (victim) {
      case 'the owner':
        return this.#owner
      case 'the standby':
        return this.#standby
      case 'a bystander':
        return this.#bystander
      case 'the relay':
        return undefined
    }
  }

  #act(actor: Person, step: Step): Promise<unknown> {
    return this.#scene.begin(actor, async ({ client }) => {
      const channel = client.channel(NAME)
      if (step === 'takeOver') await channel.takeOver()
      else await channel[step](this.#standby.agentId)
    })
  }

  /** What the relay has written down, which must be right at any time. */
  #look(when: string): void {
    const { disk } = this.#scene.relay
    const { owner, account } = disk.ownership(this.#id) ?? assert.fail()
    const people = [this.#owner, this.#standby]
    const payer = people.find(({ agentId }) => agentId === owner)?.account
    if (payer !== account) this.wrong.push(`${when}: ${account} pays for the channel of ${payer}`)
    for (const each of ACCOUNTS) {
      const { channels, bytes, held } = disk.booksOf(each)
      if (channels !== (each === account ? 1 : 0)) this.wrong.push(`${when}: ${each} has ${channels} channels`)
      if (bytes !== held) this.wrong.push(`${when}: ${bytes} bytes count for ${each}, whose channels have ${held}`)
    }
  }

  get #disagreement(): string | undefined {
    const { owner, standby } = this.#scene.relay.disk.ownership(this.#id) ?? assert.fail()
    const views = [this.#owner, this.#standby, this.#bystander].map((person) => viewOf(person.channel(NAME)))
    const [first = ''] = views
    if (views.some((view) => view !== first)) return views.join(' / ')
    return first.startsWith(`${owner} ${standby} `) ? undefined : `the relay names ${owner} and ${standby}`
  }
}

function viewOf(channel: Channel | undefined): string {
  return channel ? `${parseAgentId(channel.owner)} ${channel.standby?.agentId} ${channel.verify()}` : 'not there'
}

const VICTIMS = ['the owner', 'the standby', 'a bystander', 'the relay'] as const

type Victim = (typeof VICTIMS)[number]

for (const victim of VICTIMS) {
  test(`${victim} is killed at each step of a change of hands`, async (t) => {
    let deaths = 0
    await Scene.play(['beta', 'gamma'], async (scene) => {
      const hands = await Hands.start(scene)
      for (let [boundary, before] = [1, -1]; deaths > before; boundary += STRIDE) {
        before = deaths
        for (const step of STEPS) if (await hands.take(step, victim, boundary)) deaths++
      }
    })
    t.diagnostic(`${deaths} deaths`)
    assert.ok(deaths > STEPS.length)
  })
}
