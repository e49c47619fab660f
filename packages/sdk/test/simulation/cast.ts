/** The people of a random history, and what their applications do: invite, join, add, talk, leave and remove. */
import assert from 'node:assert/strict'
import { StaticError, toHex } from '@static/protocol'
import type { World } from '@static/testkit/world'
import { Network } from '@static/testkit/world/network'
import { SimulatedRelay } from '@static/testkit/world/relay'
import type { StaticChannelManager } from '../../src/public/manager.ts'
import type { AgentId } from '../../src/ports/index.ts'
import type { Page } from './page.ts'
import { LIE } from './liar.ts'
import { Person } from './person.ts'
import { Office, OFFICE } from '../support/office.ts'

export const NAME = 'acme/simulation/channel'

/** Of all who have one. */
export const ACCOUNT = { id: 'acme', mode: 'live' } as const

const OTHERS = 3
const JOIN_SECONDS = 60
const LIFETIMES = [10, 100, 3600] as const
/** Boundaries between a machine and its disk or network; a join has about thirty. */
const FARTHEST_DEATH = 40
const SETTINGS = { rates: { joinsPerMinute: 10_000 } }

/** The result of a call, for an application that lives to get it. */
type Lived = <Result>(result: Promise<Result>) => Promise<Result>

/** Something that happens, and how often, compared with the others. */
export type Step = readonly [number, () => void]

/** How the people of a history differ from the usual ones, and what it finds wrong with the results of their calls. */
export interface Judge {
  /** Everybody has an account of their own, and the channel changes hands. */
  readonly changesHands?: boolean
  /** The owner demands proofs of who its members are, which the last person does not have. */
  readonly proves?: boolean
  /** Somebody could not join. */
  refused?(page: Page, code: string, person: Person): string | undefined
  /** The relay has acknowledged a message. */
  sent?(index: number, messageId: string): string | undefined
}

/** Everybody. */
export class Cast {
  /** What happened how often. */
  readonly counts: Record<string, number> = {}
  readonly world: World
  readonly network: Network
  readonly relay: SimulatedRelay
  /** The owner comes first. */
  people: readonly Person[]
  readonly pages: Page[] = []
  /** Calls under way, and whose they are. */
  readonly doing: Map<string, Person> = new Map()
  readonly wrong: string[] = []
  /** Who has said what. */
  readonly said: Map<string, AgentId> = new Map()
  /** Somebody was killed, stopped or cut off since the last quiet moment. */
  isDisturbed = false
  /** The owner, or its agent, has begun to remove somebody, ever. */
  hasRemoved = false
  /** How often the channel has changed hands. */
  reign = 0
  /** Who vouches for all but the last person, if the owner demands proofs. */
  readonly office: Office | undefined
  readonly #judge: Judge

  constructor(world: World, judge: Judge) {
    this.world = world
    this.#judge = judge
    const office = judge.proves === true ? new Office() : undefined
    this.office = office
    this.hasRemoved = office !== undefined
    this.network = new Network(world)
    this.relay = new SimulatedRelay(world, this.network, SETTINGS)
    const { changesHands = false } = judge
    const names = ['owner', ...Array.from({ length: OTHERS }, (_, at) => `p${at + 1}`)]
    this.people = names.map((name, at) => {
      const account = changesHands ? `account of ${name}` : ACCOUNT.id
      return new Person(world, this.network, name, { account: at < OTHERS ? account : undefined, office })
    })
    for (const { agentId, name } of this.people.slice(0, -1)) office?.employ(agentId, name)
    if (changesHands) this.relay.disk.onEntry((_disk, _channel, entry) => this.#follow(entry))
  }

  get owner(): Person {
    return this.people[0] ?? assert.fail()
  }

  get others(): readonly Person[] {
    return this.people.slice(1)
  }

  /** A relay with the same memory as the first, and from now on another log. */
  secondRelay(): SimulatedRelay {
    return new SimulatedRelay(this.world, this.network, SETTINGS, { door: 1, disk: this.relay.disk.copy() })
  }

  /** Everybody starts, and the owner founds the channel. */
  async found(patienceMs: number): Promise<void> {
    for (const person of this.people) person.start()
    await this.world.until(
      () => this.owner.manager !== undefined,
      patienceMs,
      () => 'The channel is not founded.',
    )
    this.do('owner', this.owner, (manager) => manager.create(NAME, this.office && { require: OFFICE }))
    this.owner.isIn = true
  }

  /** All, or some, join by one invite. */
  async gather(
    drain: () => Promise<void>,
    people: readonly Person[] = this.others,
    terms: { readonly maxUses: number; readonly admit: 'members' | 'owner' } = {
      maxUses: people.length,
      admit: 'owner',
    },
  ): Promise<void> {
    this.#invite(terms.maxUses, 3600, this.office ? 'owner' : terms.admit)
    await drain()
    const page = this.pages.at(-1)
    if (page) for (const person of people) this.#joinBy(person, page)
    await drain()
  }

  /** One of several things happens. */
  step(steps: readonly Step[]): void {
    let roll = this.world.random() * steps.reduce((sum, [weight]) => sum + weight, 0)
    for (const [weight, act] of steps) if ((roll -= weight) < 0) return act()
  }

  /** What applications do. */
  get calls(): readonly Step[] {
    return [
      [this.pages.length === 0 ? 100 : 8, () => this.#inviteSome()],
      [20, () => this.#join()],
      [8, () => this.#add()],
      [10, () => this.#answer()],
      [6, () => this.#remove()],
      [8, () => this.#leave()],
      [4, () => this.#revoke()],
      [12, () => this.#send()],
      [2, () => this.#rotate()],
      ...(this.#judge.changesHands === true ? this.#hands : []),
    ]
  }

  /** How the channel changes hands. */
  get #hands(): readonly Step[] {
    return [
      [16, () => this.#nameStandby()],
      [this.others.some(isStandby) ? 60 : 0, () => this.#takeOver()],
    ]
  }

  /** What fails. */
  get faults(): readonly Step[] {
    return [
      [4, () => this.#restart()],
      [10, () => this.#arm()],
      [4, () => this.#armRelay()],
      [4, () => this.#cut()],
    ]
  }

  // ---- Calls ----

  #inviteSome(): void {
    const ttl = this.world.pick(LIFETIMES) ?? 10
    const admit = this.world.random() < 0.3 && !this.office ? 'members' : 'owner'
    this.#invite(1 + this.world.below(3), ttl, admit)
  }

  #invite(maxUses: number, ttl: number, admit: 'members' | 'owner'): void {
    const { reign } = this
    this.do(`owner invites ${maxUses} for ${ttl} s by ${admit}`, this.owner, async (manager, lived) => {
      const expiresAt = this.world.now + ttl * 1000
      const token = await lived(manager.invite(NAME, { maxUses, ttl, admit }))
      this.pages.push({ token, maxUses, expiresAt, reign, revoked: false, tries: 0 })
    })
  }

  /** One or several at once by one invite, or one by several invites at once. */
  #join(): void {
    const page = this.world.pick(this.pages)
    const [first, ...more] = this.shuffled(this.others.filter(({ manager }) => manager))
    if (!page || !first) return
    this.#joinBy(first, page)
    if (this.world.random() < 0.2) for (const person of more) this.#joinBy(person, page)
    else if (this.world.random() < 0.3) this.#joinBy(first, this.world.pick(this.pages) ?? page)
  }

  #joinBy(person: Person, page: Page): void {
    page.tries++
    const number = this.pages.indexOf(page)
    const wasOut = person.isIn === false && person.busy === 0
    const { leaves } = person
    person.isIn = undefined
    this.do(`${person.name} joins by ${number}`, person, async (manager, lived) => {
      try {
        await lived(manager.joinWithToken(NAME, page.token, JOIN_SECONDS, this.#shown))
        this.count('joined')
        if (wasOut && person === this.stranger && person.busy === 1 && !person.isUnsure)
          this.wrong.push(`${person.name} joins, and proves nothing`)
        if (wasOut && person.busy === 1 && !person.isUnsure) person.isIn = true
      } catch (error) {
        const { code, message } = StaticError.from(error)
        this.world.tell(`${person.name} does not join by ${number}: ${code}`)
        this.count(code)
        // Its program has left the channel while it was joining.
        if (code === 'closed' && person.leaves > leaves) return
        const fault = isInternal(error) ? String(error) : this.#judge.refused?.(page, code, person)
        if (fault !== undefined) this.wrong.push(`${person.name} joins by ${number}: ${fault} ${message}`)
      }
    })
  }

  /** By agent id: the other one gets an offer. */
  #add(): void {
    const person = this.world.pick(this.others.filter(({ account }) => account !== undefined))
    if (!person) return
    person.isIn = undefined
    this.do(
      `owner adds ${person.name}`,
      this.owner,
      async (manager) => {
        await manager.client.channel(NAME).addMember(person.agentId)
        // It may be leaving at the same time.
        if (person.busy > 1) person.isUnsure = true
        this.count('added')
      },
      person,
    )
  }

  /** Accepts or declines an offer, an old one perhaps. */
  #answer(): void {
    const person = this.world.pick(this.others.filter(({ offers }) => offers.length > 0))
    const offer = person && this.world.pick(person.offers)
    if (!person || !offer) return
    const accepts = this.world.random() < 0.7
    if (this.world.random() < 0.8) person.offers = person.offers.filter((other) => other !== offer)
    person.isIn = undefined
    this.do(`${person.name} ${accepts ? 'accepts' : 'declines'}`, person, async () => {
      if (accepts) await offer.accept(this.#shown)
      else await offer.decline()
      this.count(accepts ? 'accepted' : 'declined')
    })
  }

  #remove(): void {
    const person = this.world.pick(this.others)
    if (!person) return
    // The owner revokes the invite that it came by, and all that members know of.
    this.hasRemoved = true
    person.isIn = undefined
    this.do(
      `owner removes ${person.name}`,
      this.owner,
      async (manager) => {
        await manager.client.channel(NAME).removeMember(person.agentId)
        this.count('removed')
      },
      person,
    )
  }

  #leave(): void {
    const person = this.world.pick(this.others.filter((one) => one.channel(NAME)))
    if (person) this.leave(person)
  }

  leave(person: Person): void {
    person.isIn = undefined
    person.leaves++
    this.do(`${person.name} leaves`, person, async (manager, lived) => {
      await lived(manager.client.channel(NAME).leave())
      if (person.busy === 1 && !person.isUnsure) person.isIn = false
      this.count('left')
    })
  }

  #revoke(): void {
    const page = this.world.pick(this.pages)
    if (!page) return
    page.revoked = true
    this.do(`owner revokes ${this.pages.indexOf(page)}`, this.owner, async (manager) => {
      await manager.revokeInvite(page.token)
      this.count('revoked')
    })
  }

  #send(): void {
    const person = this.world.pick(this.people.filter((one) => one.channel(NAME)))
    if (person) this.send(person)
  }

  /** Says something new. */
  send(person: Person): void {
    const text = `${person.name} says ${this.said.size + 1}`
    this.said.set(text, person.agentId)
    this.do(text, person, async (manager, lived) => {
      const { index, messageId } = await lived(manager.client.channel(NAME).send(text))
      const fault = this.#judge.sent?.(index, messageId)
      if (fault !== undefined) this.wrong.push(`${text}: ${fault}`)
      this.count('sent')
    })
  }

  /** One of the others, or none; an offer at times. */
  #nameStandby(): void {
    const person =
      this.world.random() < 0.9 ? this.world.pick(this.others.filter((one) => one.channel(NAME))) : undefined
    const offers = this.world.random() < 0.3
    this.do(`owner ${offers ? 'offers the channel to' : 'names'} ${person?.name}`, this.owner, async ({ client }) => {
      const channel = client.channel(NAME)
      if (person && offers) await channel.transfer(person.agentId)
      else await channel.setStandby(person?.agentId)
      this.count('standby named')
    })
  }

  #takeOver(): void {
    const person = this.world.pick(this.others.filter(isStandby))
    if (!person) return
    this.do(`${person.name} takes over`, person, async ({ client }) => await client.channel(NAME).takeOver())
  }

  /** The relay has logged an entry: that of a take-over makes its sender the owner. */
  #follow({ kind, sender, ...entry }: ReturnType<SimulatedRelay['disk']['log']>[number]): void {
    const { owner } = 'declaration' in entry ? entry.declaration : {}
    const next = this.people.find(({ agentId }) => agentId === sender)
    if (kind !== 'commit' || !next || next === this.owner || !owner || toHex(owner) !== sender) return
    this.world.tell(`${next.name} owns the channel`)
    this.count('taken over')
    this.reign++
    // Joiners that nobody has greeted yet leave.
    for (const person of this.others) if (person.isIn !== true || person.busy > 0) this.#doubt(person)
    this.owner.isIn = true
    this.people = [next, ...this.people.filter((person) => person !== next)]
  }

  #doubt(person: Person): void {
    person.isIn = undefined
    person.isUnsure = true
  }

  #rotate(): void {
    const person = this.world.pick(this.people.filter((one) => one.channel(NAME)))
    if (person) this.do(`${person.name} rotates`, person, (manager) => manager.client.channel(NAME).rotate())
  }

  // ---- Faults ----

  #restart(): void {
    const person = this.world.pick(this.people)
    if (!person) return
    this.isDisturbed = true
    if (!person.isRunning) return person.start()
    this.count('stopped')
    person.stop()
  }

  /** Dies at one of its next boundaries, and comes back later or at the next quiet moment. */
  #arm(): void {
    const person = this.world.pick(this.people.filter(({ isRunning }) => isRunning))
    if (!person) return
    this.isDisturbed = true
    person.machine.arm(1 + this.world.below(FARTHEST_DEATH))
    if (this.world.random() < 0.6) person.machine.onDeath(() => this.#comeBack(person))
    person.machine.onDeath(() => this.count('killed'))
  }

  #comeBack(person: Person): void {
    queueMicrotask(() => {
      if (!person.isRunning) person.start()
    })
  }

  #armRelay(): void {
    this.isDisturbed = true
    const { machine } = this.relay
    machine.arm(1 + this.world.below(FARTHEST_DEATH))
    machine.onDeath(() => {
      this.count('relay killed')
      queueMicrotask(() => this.relay.restart())
    })
  }

  #cut(): void {
    const person = this.world.pick(this.people)
    if (!person?.isRunning) return
    this.isDisturbed = true
    this.world.tell(`${person.name} is cut off`)
    this.network.cut(person.machine)
  }

  /** Nobody dies any more, and everybody is up. */
  async recover(patienceMs: number): Promise<void> {
    this.relay.machine.arm(undefined)
    for (const { machine } of this.people) machine.arm(undefined)
    await this.world.until(
      () => this.people.every(({ isStopping }) => !isStopping),
      patienceMs,
      () => 'Somebody does not stop',
    )
    for (const person of this.people) if (!person.isRunning) person.start()
  }

  /** Who is in and who is out is as their applications have left it. */
  checkIntents(): void {
    const members = this.owner.channel(NAME)?.members() ?? []
    for (const person of this.others) {
      const isIn = members.some(({ agentId }) => agentId === person.agentId)
      // The owner's agent may have removed it.
      if (person.isIn !== undefined && person.isIn !== isIn && person !== this.stranger)
        this.wrong.push(`${person.name} should be ${person.isIn ? 'in' : 'out'}`)
      person.isIn = isIn
      person.isUnsure = false
    }
  }

  /** The person for whom nobody vouches. */
  get stranger(): Person | undefined {
    return this.office && this.people.find(({ agentId }) => this.office?.nameOf(agentId) === undefined)
  }

  /** What is wrong with what somebody has found out about others. */
  misbelieved(): readonly string[] {
    const { office } = this
    if (!office) return []
    return this.people.flatMap(({ name, manager }) => {
      const channel = manager?.channels().find((one) => one.name === NAME)
      const members = channel?.members() ?? []
      return members.flatMap(({ agentId, proof }) => {
        const wrong = proof && office.wrongAbout(agentId, proof)
        if (proof?.state === 'checked') this.count('proven')
        return wrong === undefined ? [] : [`${name}: ${wrong}`]
      })
    })
  }

  // ---- Inside ----

  get #shown(): { readonly show: string } | undefined {
    return this.office && { show: OFFICE }
  }

  /** A call of somebody's application. It fails with its process, and may fail with others'. */
  do(
    what: string,
    person: Person,
    call: (manager: StaticChannelManager, lived: Lived) => Promise<unknown>,
    subject: Person = person,
  ): void {
    const { machine, manager } = person
    if (!manager) return
    this.world.tell(what)
    const key = `${what} ${this.world.now} ${this.world.story.length}`
    this.doing.set(key, person)
    subject.busy++
    const over = (): void => {
      if (this.doing.delete(key)) subject.busy--
      if (!machine.isDead) person.look()
    }
    const lived: Lived = async (result) => {
      const value = await result
      // The end of a turn in which the process has died: nobody gets it.
      return machine.isDead ? await new Promise<never>(() => {}) : value
    }
    machine.onDeath(() => {
      if (subject !== person && this.doing.has(key)) subject.isUnsure = true
      over()
    })
    machine.do(() => {
      call(manager, lived)
        .catch((error: unknown) => {
          const known = StaticError.from(error)
          this.world.tell(`${what}: ${known.code} ${known.message}`)
          if (isInternal(error)) this.wrong.push(`${what}: ${String(error)} ${known.stack}`)
        })
        .finally(over)
    })
  }

  count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }

  shuffled<Item>(items: readonly Item[]): Item[] {
    return items
      .map((item) => ({ item, order: this.world.random() }))
      .sort((a, b) => a.order - b.order)
      .map(({ item }) => item)
  }
}

/** Whether somebody may take the channel over, as far as it knows. */
function isStandby(person: Person): boolean {
  return person.channel(NAME)?.standby?.agentId === person.agentId
}

/** An error that nobody has foreseen. A relay that lies may refuse with that code, or with one that there is not. */
function isInternal(error: unknown): boolean {
  const { code, message } = StaticError.from(error)
  return code === 'internal_error' && message !== LIE && !message.startsWith('The relay refused with unknown code')
}
