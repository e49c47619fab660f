/** A channel of a simulated world, for single stories: nothing fails in it but what a test lets fail. */
import assert from 'node:assert/strict'
import { World } from '@static/testkit/world'
import { Network } from '@static/testkit/world/network'
import { SimulatedRelay } from '@static/testkit/world/relay'
import type { StaticChannelManager } from '../../src/public/manager.ts'
import { NAME } from './cast.ts'
import { Person } from './person.ts'

const PATIENCE_MS = 300_000

/** A world with an owner, its channel, and others that are not in it yet. */
export class Scene {
  readonly world: World
  readonly network: Network
  readonly relay: SimulatedRelay
  readonly owner: Person
  readonly others: readonly Person[]

  private constructor(world: World, others: number | readonly string[]) {
    this.world = world
    this.network = new Network(world)
    this.relay = new SimulatedRelay(world, this.network)
    this.owner = new Person(world, this.network, 'owner', { account: 'acme' })
    const accounts = typeof others === 'number' ? Array.from({ length: others }, () => 'acme') : others
    this.others = accounts.map((account, at) => new Person(world, this.network, `p${at + 1}`, { account }))
  }

  /** Plays a story with so many others, or with others of these accounts. */
  static async play(others: number | readonly string[], story: (scene: Scene) => Promise<void>): Promise<void> {
    await World.live(1, async (world) => {
      const scene = new Scene(world, others)
      for (const person of [scene.owner, ...scene.others]) await scene.start(person)
      await scene.call(scene.owner, (owner) => owner.create(NAME))
      try {
        await story(scene)
        assert.deepEqual(
          [scene.owner, ...scene.others].flatMap(({ failures }) => failures),
          [],
        )
      } catch (cause) {
        throw new Error(`${String(cause)}\n${world.story.join('\n')}`, { cause })
      }
    })
  }

  async start(person: Person): Promise<void> {
    person.start()
    await this.until(`${person.name} does not start`, () => person.manager !== undefined)
  }

  /** Begins a call of somebody's application. */
  begin<Result>(person: Person, call: (manager: StaticChannelManager) => Promise<Result>): Promise<Result> {
    const { machine, manager } = person
    return new Promise((resolve, reject) => {
      machine.do(() => void (manager ? call(manager) : Promise.reject(new Error('It is off.'))).then(resolve, reject))
    })
  }

  /** Lets things happen until a call has ended. */
  async end<Result>(call: Promise<Result>): Promise<Result> {
    let isOver = false
    const over = (): boolean => (isOver = true)
    call.then(over, over)
    await this.until('A call does not end', () => isOver)
    return await call
  }

  async call<Result>(person: Person, call: (manager: StaticChannelManager) => Promise<Result>): Promise<Result> {
    return await this.end(this.begin(person, call))
  }

  async until(what: string, isSo: () => boolean): Promise<void> {
    await this.world.until(isSo, PATIENCE_MS, () => what)
  }

  /** Shows another log to somebody from now on. Returns the relay that has it. */
  fork(person: Person): SimulatedRelay {
    const second = new SimulatedRelay(this.world, this.network, {}, { door: 1, disk: this.relay.disk.copy() })
    this.network.doorOf = ({ name }) => (name === person.name ? 1 : 0)
    this.network.cut(person.machine)
    return second
  }

  /** Cuts somebody off until the network is up again. */
  cutOff(person: Person): void {
    this.network.isDown = true
    this.network.cut(person.machine)
  }
}
