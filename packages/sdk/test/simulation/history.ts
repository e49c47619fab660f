/**
 * A random history of one channel in a deterministic world: its owner invites, adds and removes, others come, talk and
 * go, and everybody, the relay too, dies at any boundary between it and its disk or network.
 */
import { StaticError, toHex } from '@static/protocol'
import type { World } from '@static/testkit/world'
import { Network } from '@static/testkit/world/network'
import { SimulatedRelay } from '@static/testkit/world/relay'
import type { Channel } from '../../src/channel.ts'
import type { StaticChannelManager } from '../../src/manager.ts'
import { disagreement, misread } from './checker.ts'
import { type Circumstances, mayRefuse, type Page } from './page.ts'
import { Person } from './person.ts'

export const NAME = 'acme/simulation/channel'

const STRETCHES = 3
const STEPS = 10
const OTHERS = 3
/** How long it may take until all agree once nobody dies any more. Hellos are repeated after 600 s at most. */
const PATIENCE_MS = 1_500_000
/** When it is first looked at again whether they agree. */
const SOON_MS = 200
const JOIN_SECONDS = 60
const LIFETIMES = [10, 100, 3600] as const
const PAUSES = [0, 0, 10, 100, 1000, 5000] as const
const JUMPS = [0, 0, 15_000, 75_000, 200_000] as const
/** Boundaries between a machine and its disk or network; a join has about thirty. */
const FARTHEST_DEATH = 40

/** The result of a call, for an application that lives to get it. */
type Lived = <Result>(result: Promise<Result>) => Promise<Result>

/** The history of one seed. */
export class History {
  /** What happened how often. */
  readonly counts: Record<string, number> = {}
  readonly #world: World
  readonly #network: Network
  readonly #relay: SimulatedRelay
  readonly #owner: Person
  readonly #others: readonly Person[]
  readonly #pages: Page[] = []
  readonly #doing = new Set<string>()
  readonly #wrong: string[] = []
  /** Somebody was killed, stopped or cut off since the last quiet moment. */
  #disturbed = false
  /** The owner has begun to remove somebody, ever. */
  #hasRemoved = false
  #said = 0

  constructor(world: World) {
    this.#world = world
    this.#network = new Network(world)
    this.#relay = new SimulatedRelay(world, this.#network, { rates: { joinsPerMinute: 10_000 } })
    this.#owner = new Person(world, this.#network, 'owner', true)
    this.#others = Array.from({ length: OTHERS }, (_, at) => new Person(world, this.#network, `p${at + 1}`, at < 2))
  }

  get #people(): readonly Person[] {
    return [this.#owner, ...this.#others]
  }

  async run(): Promise<void> {
    for (const person of this.#people) person.start()
    await this.#until('The channel is not founded.', () => this.#owner.manager !== undefined)
    this.#do('owner', this.#owner, (manager) => manager.create(NAME))
    this.#owner.isIn = true
    await this.#rest()
    for (let stretch = 0; stretch < STRETCHES; stretch++) {
      for (let step = 0; step < STEPS; step++) {
        this.#step()
        await this.#world.pass(this.#world.pick(PAUSES) ?? 0)
      }
      await this.#quiet()
      await this.#world.pass(this.#world.pick(JUMPS) ?? 0)
    }
  }

  // ---- Steps ----

  #step(): void {
    const steps: readonly (readonly [number, () => void])[] = [
      [this.#pages.length === 0 ? 100 : 8, () => this.#invite()],
      [20, () => this.#join()],
      [8, () => this.#add()],
      [10, () => this.#answer()],
      [6, () => this.#remove()],
      [8, () => this.#leave()],
      [4, () => this.#revoke()],
      [12, () => this.#send()],
      [2, () => this.#rotate()],
      [4, () => this.#restart()],
      [10, () => this.#arm()],
      [4, () => this.#armRelay()],
      [4, () => this.#cut()],
    ]
    let roll = this.#world.random() * steps.reduce((sum, [weight]) => sum + weight, 0)
    for (const [weight, act] of steps) if ((roll -= weight) < 0) return act()
  }

  #invite(): void {
    const maxUses = 1 + this.#world.below(3)
    const ttl = this.#world.pick(LIFETIMES) ?? 10
    const admit = this.#world.random() < 0.3 ? 'members' : 'owner'
    this.#do(`owner invites ${maxUses} for ${ttl} s by ${admit}`, this.#owner, async (manager, lived) => {
      const expiresAt = this.#world.now + ttl * 1000
      const token = await lived(manager.invite(NAME, { maxUses, ttl, admit }))
      this.#pages.push({ token, maxUses, expiresAt, revoked: false, tries: 0 })
    })
  }

  /** One or several at once by one invite, or one by several invites at once. */
  #join(): void {
    const page = this.#world.pick(this.#pages)
    const [first, ...more] = this.#shuffled(this.#others.filter(({ manager }) => manager))
    if (!page || !first) return
    this.#joinBy(first, page)
    if (this.#world.random() < 0.2) for (const person of more) this.#joinBy(person, page)
    else if (this.#world.random() < 0.3) this.#joinBy(first, this.#world.pick(this.#pages) ?? page)
  }

  #joinBy(person: Person, page: Page): void {
    page.tries++
    const number = this.#pages.indexOf(page)
    const wasOut = person.isIn === false && person.busy === 0
    person.isIn = undefined
    this.#do(`${person.name} joins by ${number}`, person, async (manager, lived) => {
      try {
        await lived(manager.joinWithToken(NAME, page.token, JOIN_SECONDS))
        this.#count('joined')
        if (wasOut && person.busy === 1) person.isIn = true
      } catch (error) {
        const { code, message } = StaticError.from(error)
        this.#world.tell(`${person.name} does not join by ${number}: ${code}`)
        this.#count(code)
        if (!mayRefuse(page, code, this.#circumstances))
          this.#wrong.push(`${person.name} joins by ${number}: ${code} ${message}`)
      }
    })
  }

  /** By agent id: the other one gets an offer. */
  #add(): void {
    const person = this.#world.pick(this.#others.filter(({ hasAccount }) => hasAccount))
    if (!person) return
    person.isIn = undefined
    this.#do(
      `owner adds ${person.name}`,
      this.#owner,
      async (manager) => {
        await manager.client.channel(NAME).addMember(person.agentId)
        this.#count('added')
      },
      person,
    )
  }

  /** Accepts or declines an offer, an old one perhaps. */
  #answer(): void {
    const person = this.#world.pick(this.#others.filter(({ offers }) => offers.length > 0))
    const offer = person && this.#world.pick(person.offers)
    if (!person || !offer) return
    const accepts = this.#world.random() < 0.7
    if (this.#world.random() < 0.8) person.offers = person.offers.filter((other) => other !== offer)
    person.isIn = undefined
    this.#do(`${person.name} ${accepts ? 'accepts' : 'declines'}`, person, async () => {
      if (accepts) await offer.accept()
      else await offer.decline()
      this.#count(accepts ? 'accepted' : 'declined')
    })
  }

  #remove(): void {
    const person = this.#world.pick(this.#others)
    if (!person) return
    // The owner revokes the invite that it came by, and all that members know of.
    this.#hasRemoved = true
    person.isIn = undefined
    this.#do(
      `owner removes ${person.name}`,
      this.#owner,
      async (manager) => {
        await manager.client.channel(NAME).removeMember(person.agentId)
        this.#count('removed')
      },
      person,
    )
  }

  #leave(): void {
    const person = this.#world.pick(this.#others.filter((one) => one.channel(NAME)))
    if (!person) return
    person.isIn = undefined
    this.#do(`${person.name} leaves`, person, async (manager, lived) => {
      await lived(manager.client.channel(NAME).leave())
      if (person.busy === 1) person.isIn = false
      this.#count('left')
    })
  }

  #revoke(): void {
    const page = this.#world.pick(this.#pages)
    if (!page) return
    page.revoked = true
    this.#do(`owner revokes ${this.#pages.indexOf(page)}`, this.#owner, async (manager) => {
      await manager.revokeInvite(page.token)
      this.#count('revoked')
    })
  }

  #send(): void {
    const person = this.#world.pick(this.#people.filter((one) => one.channel(NAME)))
    if (!person) return
    const text = `${person.name} says ${++this.#said}`
    this.#do(text, person, async (manager, lived) => {
      const { index, messageId } = await lived(manager.client.channel(NAME).send(text))
      const entry = this.#log.find((one) => one.index === index)
      const isThere = entry?.kind === 'message' && isOf(messageId, entry.messageId)
      if (!isThere) this.#wrong.push(`${text}: acknowledged as ${index}, where it is not`)
      this.#count('sent')
    })
  }

  #rotate(): void {
    const person = this.#world.pick(this.#people.filter((one) => one.channel(NAME)))
    if (person) this.#do(`${person.name} rotates`, person, (manager) => manager.client.channel(NAME).rotate())
  }

  // ---- Faults ----

  #restart(): void {
    const person = this.#world.pick(this.#people)
    if (!person) return
    this.#disturbed = true
    if (!person.isRunning) return person.start()
    this.#count('stopped')
    person.stop()
  }

  /** Dies at one of its next boundaries, and comes back later or at the next quiet moment. */
  #arm(): void {
    const person = this.#world.pick(this.#people.filter(({ isRunning }) => isRunning))
    if (!person) return
    this.#disturbed = true
    person.machine.arm(1 + this.#world.below(FARTHEST_DEATH))
    if (this.#world.random() < 0.6) person.machine.onDeath(() => this.#comeBack(person))
    person.machine.onDeath(() => this.#count('killed'))
  }

  #comeBack(person: Person): void {
    queueMicrotask(() => {
      if (!person.isRunning) person.start()
    })
  }

  #armRelay(): void {
    this.#disturbed = true
    const { machine } = this.#relay
    machine.arm(1 + this.#world.below(FARTHEST_DEATH))
    machine.onDeath(() => {
      this.#count('relay killed')
      queueMicrotask(() => this.#relay.restart())
    })
  }

  #cut(): void {
    const person = this.#world.pick(this.#people)
    if (!person?.isRunning) return
    this.#disturbed = true
    this.#world.tell(`${person.name} is cut off`)
    this.#network.cut(person.machine)
  }

  // ---- Quiet ----

  /** Nobody dies any more; all that was begun comes to its end, and all agree. */
  async #quiet(): Promise<void> {
    this.#relay.machine.arm(undefined)
    for (const { machine } of this.#people) machine.arm(undefined)
    await this.#until('Somebody does not stop', () => this.#people.every(({ isStopping }) => !isStopping))
    for (const person of this.#people) if (!person.isRunning) person.start()
    await this.#rest()
    this.#checkIntents()
    this.#check()
    this.#disturbed = false
    this.#world.tell('quiet')
  }

  async #rest(): Promise<void> {
    await this.#until('It does not come to an end', () => this.#doing.size === 0)
    const end = this.#world.now + PATIENCE_MS
    for (let wait = SOON_MS; this.#disagreement !== undefined; wait *= 1.5) {
      if (this.#world.now > end) throw new Error(`They do not agree: ${this.#disagreement} ${this.#troubles}`)
      await this.#world.pass(Math.round(wait))
      for (const person of this.#people) person.look()
    }
  }

  get #log(): ReturnType<SimulatedRelay['disk']['log']> {
    const channel = this.#owner.recordOf(NAME)
    return channel ? this.#relay.disk.log(channel.id) : []
  }

  get #disagreement(): string | undefined {
    const channel = this.#owner.recordOf(NAME)
    return channel
      ? disagreement(NAME, this.#people, this.#relay.disk.roster(channel.id), this.#log, this.#world.now)
      : 'no channel'
  }

  /** What is wrong already, for the end of a history. */
  get #troubles(): string {
    return [...this.#wrong, ...this.#relay.errors.map(String)].join('\n')
  }

  #checkIntents(): void {
    const members = membersOf(this.#owner.channel(NAME))
    for (const person of this.#others) {
      const isIn = members.includes(person.agentId)
      if (person.isIn !== undefined && person.isIn !== isIn)
        this.#wrong.push(`${person.name} should be ${person.isIn ? 'in' : 'out'}`)
      person.isIn = isIn
    }
  }

  #check(): void {
    this.#wrong.push(...misread(this.#people, this.#log))
    for (const error of this.#relay.errors) this.#wrong.push(`relay: ${String(error)}`)
    if (this.#wrong.length > 0) throw new Error(this.#wrong.join('\n'))
  }

  // ---- Inside ----

  get #circumstances(): Circumstances {
    return { now: this.#world.now, hasRemoved: this.#hasRemoved, isDisturbed: this.#disturbed }
  }

  /** A call of somebody's application. It fails with its process, and may fail with others'. */
  #do(
    what: string,
    person: Person,
    call: (manager: StaticChannelManager, lived: Lived) => Promise<unknown>,
    subject: Person = person,
  ): void {
    const { machine, manager } = person
    if (!manager) return
    this.#world.tell(what)
    const key = `${what} ${this.#world.now} ${this.#world.story.length}`
    this.#doing.add(key)
    subject.busy++
    const over = (): void => {
      if (this.#doing.delete(key)) subject.busy--
      if (!machine.isDead) person.look()
    }
    const lived: Lived = async (result) => {
      const value = await result
      // The end of a turn in which the process has died: nobody gets it.
      return machine.isDead ? await new Promise<never>(() => {}) : value
    }
    machine.onDeath(over)
    machine.do(() => {
      call(manager, lived)
        .catch((error: unknown) => {
          const known = StaticError.from(error)
          this.#world.tell(`${what}: ${known.code} ${known.message}`)
          if (known.code === 'internal_error') this.#wrong.push(`${what}: ${String(error)} ${known.stack}`)
        })
        .finally(over)
    })
  }

  async #until(what: string, isSo: () => boolean): Promise<void> {
    const why = (): string => `${what}: ${[...this.#doing].join(', ')} ${this.#disagreement} ${this.#troubles}`
    await this.#world.until(isSo, PATIENCE_MS, why)
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }

  #shuffled<Item>(items: readonly Item[]): Item[] {
    return items
      .map((item) => ({ item, order: this.#world.random() }))
      .sort((a, b) => a.order - b.order)
      .map(({ item }) => item)
  }
}

/** Whether a payload is one of those of a message: its id has its place among them in the last digit. */
function isOf(payload: string, messageId: Uint8Array): boolean {
  return toHex(messageId).slice(0, -1) === payload.slice(0, -1)
}

function membersOf(channel: Channel | undefined): readonly string[] {
  return channel?.members().map(({ agentId }) => agentId) ?? []
}
