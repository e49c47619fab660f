/** A random life of one channel: its owner invites, others come and go, and everybody stops and dies at any time. */
import assert from 'node:assert/strict'
import { setTimeout as wait } from 'node:timers/promises'
import { StaticError } from '@static/protocol'
import { CrashingPorts } from '@static/testkit/crash/agent-ports'
import type { Channel } from '../../src/public/channel.ts'
import type { StaticChannelManager } from '../../src/public/manager.ts'
import type { AgentId, AgentStore } from '../../src/ports/index.ts'
import type { TestSystem } from '../support/test-system.ts'
import { Book, type Page } from './book.ts'

const PATIENCE_MS = 120_000
const JOIN_SECONDS = 25
/** Steps between two moments at which all is quiet. */
const STRETCH = 8
/** Joiners that say no hello are removed after this. */
const HELLO_MS = 60_000
const JUMPS = [0, 0, 1000, 15_000, 75_000, 200_000] as const
const LIFETIMES = [10, 100, 3600] as const

/** Somebody who is in the channel at times. */
interface Person {
  readonly name: string
  readonly isOwner: boolean
  agentId: AgentId
  manager: StaticChannelManager | undefined
  mortal: CrashingPorts
  /** Something is being done by it, or to it. */
  busy: boolean
  /** Whether it is a member, as far as anybody can know without looking. */
  isIn: boolean | undefined
  starting: Promise<void> | undefined
  /** Joins that are under way, in its database. */
  attempts: number
  /** The channel as it was when it could not go on, if it could not. */
  failed: Channel | undefined
}

/** A channel's life. */
export class Life {
  readonly name: string
  readonly #world: TestSystem
  readonly #random: () => number
  readonly #people: Person[]
  readonly #owner: Person
  readonly #book: Book
  /** What is being done, and what it is. */
  readonly #doing = new Map<Promise<void>, string>()
  readonly #told: string[] = []
  readonly #wrong: string[] = []
  #ahead = 0
  /** Somebody was killed or stopped since the last quiet moment. */
  #disturbed = false
  /** What happened, by name. */
  readonly counts: Record<string, number> = {}

  constructor(world: TestSystem, random: () => number, number: number, people: number) {
    this.name = `acme/lives/life-${number}`
    this.#world = world
    this.#random = random
    this.#book = new Book(() => this.#now())
    this.#people = Array.from({ length: people + 1 }, (_, at) => ({
      name: `life-${number}-${at === 0 ? 'owner' : at}`,
      isOwner: at === 0,
      agentId: '',
      manager: undefined,
      mortal: new CrashingPorts(),
      busy: false,
      isIn: at === 0,
      starting: undefined,
      attempts: 0,
      failed: undefined,
    }))
    this.#owner = this.#people[0] ?? assert.fail()
  }

  /** Lives; gives the channel's id and who is in at the end. */
  async run(steps: number): Promise<{ id: string; members: readonly AgentId[] }> {
    try {
      await Promise.all(this.#people.map((person) => this.#start(person)))
      await this.#owner.manager?.create(this.name)
      for (let step = 1; step <= steps; step++) {
        this.#step()
        // Some things happen at once, some after each other.
        if (this.#random() < 0.6 && this.#doing.size > 0) await Promise.race(this.#doing.keys())
        if (step % STRETCH === 0) await this.#quiet(step < steps)
      }
      const members = await this.#quiet(false)
      return { id: this.#channelOf(this.#owner)?.id ?? assert.fail(), members }
    } catch (error) {
      throw new Error(`${String(error)}\n${this.name}:\n${this.#told.join('\n')}`, { cause: error })
    }
  }

  // ---- Steps ----

  #step(): void {
    const roll = this.#random()
    if (roll < 0.18 || this.#book.pages.length === 0) return this.#invite()
    if (roll < 0.6) return this.#join()
    if (roll < 0.68) return this.#remove()
    if (roll < 0.73) return this.#revoke()
    if (roll < 0.81) return this.#leave()
    if (roll < 0.88) return this.#restart(this.#anybody())
    if (roll < 0.96) return this.#arm(this.#anybody())
    this.#arm(this.#owner)
  }

  #invite(): void {
    const maxUses = 1 + this.#below(3)
    const ttl = this.#pick(LIFETIMES) ?? 10
    this.#do(`invite ${maxUses} for ${ttl} s`, [], async () => {
      this.#book.add(await running(this.#owner).invite(this.name, { maxUses, ttl }), maxUses)
    })
  }

  /** One, or several at once by the same token. */
  #join(): void {
    const pages = this.#book.pages
    const good = pages.filter((page) => this.#book.isGood(page))
    const page = this.#pick(this.#random() < 0.7 && good.length > 0 ? good : pages)
    if (!page) return
    const many = this.#random() < 0.3 ? 3 : 1
    for (let left = many; left > 0; left--) {
      const out = this.#people.filter(({ busy, isIn, manager, isOwner }) => !busy && !isIn && manager && !isOwner)
      const person = this.#pick(out)
      if (person) this.#joinBy(person, page)
    }
  }

  #joinBy(person: Person, page: Page): void {
    // By one that is no good nobody comes in, whatever happens.
    const isHopeless = !this.#book.isGood(page) && page.revoked !== 'begun'
    const before = person.isIn
    if (!isHopeless) person.isIn = undefined
    this.#do(`${person.name} joins by invite ${this.#book.pages.indexOf(page)}`, [person], async () => {
      try {
        await running(person).joinWithToken(this.name, page.token, JOIN_SECONDS)
        // One that is being removed takes itself for a member, and joins by any token.
        if (before === false) person.isIn = true
        this.#count('joined')
      } catch (error) {
        const { code } = StaticError.from(error)
        this.#count(code)
        if (code !== 'closed') person.isIn = before
        const why = `${person.name}, invite ${this.#book.pages.indexOf(page)}: ${code}`
        this.#told.push(why)
        if (!this.#mayRefuse(page, code)) this.#wrong.push(`${why}, ${JSON.stringify({ ...page, token: '' })}`)
      }
    })
  }

  /** Whether a joiner may be told this. */
  #mayRefuse(page: Page, code: string): boolean {
    switch (code) {
      case 'invite_expired':
        return page.expiresAt <= this.#now()
      case 'invite_revoked':
        return page.revoked !== 'no'
      case 'invite_used_up':
        return page.taken >= page.maxUses
      default:
        // It was stopped or killed.
        return this.#disturbed && code === 'closed'
    }
  }

  #remove(): void {
    const person = this.#pick(this.#people.filter(({ busy, isIn, isOwner }) => !busy && isIn && !isOwner))
    if (!person) return
    const page = this.#book.pageOf(person.agentId)
    if (page?.revoked === 'no') page.revoked = 'begun'
    this.#do(`${person.name} is removed`, [person], async () => {
      person.isIn = undefined
      await running(this.#owner).client.channel(this.name).removeMember(person.agentId)
      if (page) page.revoked = 'done'
      this.#count('removed')
      // One that does not know it yet takes itself for a member, and joins by any token.
      await this.#until(
        () => !this.#membersOf(person),
        () => `${person.name} does not hear that it is removed.`,
      )
      person.isIn = false
    })
  }

  #revoke(): void {
    const page = this.#pick(
      this.#book.pages.filter(({ revoked, expiresAt }) => revoked === 'no' && expiresAt > this.#now()),
    )
    if (!page) return
    page.revoked = 'begun'
    this.#do(`invite ${this.#book.pages.indexOf(page)} is revoked`, [], async () => {
      await running(this.#owner).revokeInvite(page.token)
      page.revoked = 'done'
      this.#count('revoked')
    })
  }

  #leave(): void {
    const inside = this.#people.filter(({ busy, isIn, isOwner, manager }) => !busy && isIn && !isOwner && manager)
    const person = this.#pick(inside)
    if (!person) return
    this.#do(`${person.name} leaves`, [person], async () => {
      person.isIn = undefined
      await running(person).client.channel(this.name).leave()
      person.isIn = false
      this.#count('left')
    })
  }

  /** Stopped in order, and started again. */
  #restart(person: Person): void {
    if (!person.manager || person.starting) return
    this.#disturbed = true
    this.#told.push(`${person.name} is stopped`)
    this.#count('stopped')
    this.#change(person, true)
  }

  /** Dies at one of its next calls to the world. */
  #arm(person: Person): void {
    if (!person.manager || person.starting) return
    this.#disturbed = true
    const { mortal } = person
    const point = { call: 1 + this.#below(14), moment: this.#random() < 0.5 ? 'before' : 'after' } as const
    this.#told.push(`${person.name} will die ${point.moment} call ${point.call}`)
    const comesBack = person.isOwner || this.#random() < 0.6
    mortal.mark(point)
    void mortal.died.then(() => {
      // In the middle of being stopped.
      if (person.starting) return
      this.#told.push(`${person.name} dies`)
      this.#count('killed')
      this.#change(person, comesBack)
    })
  }

  // ---- Quiet ----

  /** All that was begun comes to its end, and all agree. */
  async #quiet(goesOn: boolean): Promise<readonly AgentId[]> {
    await this.#until(
      () => this.#doing.size === 0,
      () => `It does not come to an end: ${[...this.#doing.values()].join(', ')}`,
    )
    const jump = this.#pick(JUMPS) ?? 0
    for (const person of this.#people) {
      if (!person.mortal.isDead) person.mortal.mark(undefined)
      await person.starting
      // Some stay away for longer. Who was about to join does so before its token expires, or is removed for its silence.
      const mustCome = !goesOn || person.isOwner || (person.attempts > 0 && jump < HELLO_MS)
      if (!person.manager && (mustCome || this.#random() < 0.6)) await this.#start(person)
    }
    // Whatever the owner had begun comes before it.
    await running(this.#owner).client.channel(this.name).rotate()
    const members = await this.#agreement()
    for (const { name, isIn, agentId } of this.#people) {
      if (isIn !== undefined) assert.equal(members.includes(agentId), isIn, `${name} should be ${isIn ? 'in' : 'out'}`)
    }
    for (const person of this.#people) {
      // One that is away may have something begun.
      if (person.manager || person.isIn !== undefined) person.isIn = members.includes(person.agentId)
    }
    assert.deepEqual(this.#wrong, [])
    this.#book.check()
    this.#disturbed = false
    this.#told.push(`quiet: ${members.length} members`)
    if (goesOn) await this.#pass(jump)
    return members
  }

  /** Time passes; who was added, and is away without a hello, is removed. */
  async #pass(jump: number): Promise<void> {
    this.#ahead += jump
    this.#told.push(`${jump / 1000} s pass`)
    if (jump < HELLO_MS) return
    const silent = this.#people.filter(({ agentId, manager }) => !manager && this.#book.stateOf(agentId) === 'added')
    if (silent.length === 0) return
    await this.#until(
      () => silent.every(({ agentId }) => !this.#membersOf(this.#owner)?.includes(agentId)),
      () => 'A silent joiner was not removed.',
    )
    for (const person of silent) person.isIn = false
    this.#count('silent', silent.length)
  }

  async #agreement(): Promise<readonly AgentId[]> {
    const running = this.#people.filter(({ manager }) => manager)
    const view = (person: Person): string => {
      const members = this.#membersOf(person)
      return members ? `${members.join()} ${this.#channelOf(person)?.verify()}` : 'out'
    }
    const agree = (): boolean => {
      const members = this.#membersOf(this.#owner) ?? []
      const expected = view(this.#owner)
      return (
        running.every((person) => person.attempts === 0) &&
        running.every((person) => view(person) === (members.includes(person.agentId) ? expected : 'out')) &&
        this.#people.every(({ isIn, agentId }) => isIn !== false || !members.includes(agentId))
      )
    }
    await this.#until(agree, () => {
      const lines = running.map(
        (person) => `${person.name} ${person.agentId.slice(0, 6)} (${person.attempts}): ${view(person)}`,
      )
      return `They do not agree:\n${lines.join('\n')}`
    })
    return this.#membersOf(this.#owner) ?? assert.fail('The owner is out.')
  }

  // ---- People ----

  /** Stops somebody, and starts it again or not. */
  #change(person: Person, comesBack: boolean): void {
    const changing = comesBack ? this.#start(person) : this.#stop(person)
    person.starting = changing
      .catch((error: unknown) => void this.#wrong.push(`${person.name} does not start: ${String(error)}`))
      .finally(() => (person.starting = undefined))
  }

  /** Starts somebody, or starts it again. */
  async #start(person: Person): Promise<void> {
    await this.#stop(person)
    const mortal = new CrashingPorts()
    person.mortal = mortal
    const watch = (store: AgentStore): AgentStore =>
      this.#watch(person, person.isOwner ? this.#book.watch(store) : store)
    person.manager = await this.#world.manager(person.name, {
      ...(person.isOwner ? {} : { account: null }),
      now: () => this.#now(),
      // Who has left is removed soon.
      chance: () => this.#random() / 50,
      transport: (transport) => mortal.transport(transport),
      store: (store) => mortal.store(watch(store)),
    })
    person.agentId = person.manager.client.agentId
    void this.#listen(person, person.manager)
  }

  /** Its events belong to the story. */
  async #listen(person: Person, { client }: StaticChannelManager): Promise<void> {
    for await (const happened of client.events()) {
      const detail = 'error' in happened ? `${happened.error.code} ${happened.error.message}` : ''
      if (happened.type !== 'rekeyed') this.#told.push(`${person.name}: ${happened.type} ${detail}`)
      if (happened.type === 'channel_failed') person.failed = this.#channelOf(person)
    }
  }

  async #stop(person: Person): Promise<void> {
    const { manager } = person
    person.manager = undefined
    await manager?.close()
  }

  /** Counts the joins that are under way. */
  #watch(person: Person, store: AgentStore): AgentStore {
    const under = new Set(store.load().attempts.map(({ invite }) => invite))
    person.attempts = under.size
    return {
      load: () => store.load(),
      inbox: (id, after, limit) => store.inbox(id, after, limit),
      poison: (id) => store.poison(id),
      requests: (id, after, limit) => store.requests(id, after, limit),
      answers: (id) => store.answers(id),
      fileDigests: (id, index) => store.fileDigests(id, index),
      uploadParts: (id, fileId) => store.uploadParts(id, fileId),
      kept: (id, before, limit) => store.kept(id, before, limit),
      keptSizes: (id, before, limit) => store.keptSizes(id, before, limit),
      write: (changes) => {
        store.write(changes)
        for (const change of changes) {
          if (change.type === 'putAttempt') under.add(change.record.invite)
          if (change.type === 'dropAttempt') under.delete(change.invite)
        }
        person.attempts = under.size
      },
      onFailure: (listener) => store.onFailure(listener),
      checkpoint: () => store.checkpoint(),
      close: () => store.close(),
    }
  }

  #channelOf({ manager }: Person): Channel | undefined {
    return manager?.channels().find(({ name }) => name === this.name)
  }

  /** Undefined: it is out, or on its way. */
  #membersOf(person: Person): readonly AgentId[] | undefined {
    const channel = this.#channelOf(person)
    // One that was away when it was removed finds the end of the log gone, and nothing to follow.
    if (channel === person.failed) return undefined
    try {
      return channel
        ?.members()
        .map(({ agentId }) => agentId)
        .sort()
    } catch (error) {
      if (error instanceof StaticError && error.code === 'removed') return undefined
      throw error
    }
  }

  // ---- Inside ----

  /** Does something that may fail because somebody dies. */
  #do(what: string, people: readonly Person[], action: () => Promise<void>): void {
    this.#told.push(what)
    for (const person of people) person.busy = true
    const done = action()
      .catch((error: unknown) => {
        const { code } = StaticError.from(error)
        this.#told.push(`${what}: ${code}`)
        if (!this.#disturbed) this.#wrong.push(`${what}: ${String(error)}`)
      })
      .finally(() => {
        for (const person of people) person.busy = false
        this.#doing.delete(done)
      })
    this.#doing.set(done, what)
  }

  async #until(holds: () => boolean, complaint: () => string): Promise<void> {
    const late = performance.now() + PATIENCE_MS
    while (!holds()) {
      if (performance.now() > late) throw new Error(complaint())
      await wait(5)
    }
  }

  #count(what: string, more = 1): void {
    this.counts[what] = (this.counts[what] ?? 0) + more
  }

  #now(): number {
    return Date.now() + this.#ahead
  }

  #anybody(): Person {
    return this.#people[1 + this.#below(this.#people.length - 1)] ?? this.#owner
  }

  #below(limit: number): number {
    return Math.floor(this.#random() * limit)
  }

  #pick<Item>(items: readonly Item[]): Item | undefined {
    return items[this.#below(items.length)]
  }
}

function running({ manager }: Person): StaticChannelManager {
  if (!manager) throw StaticError.of('closed')
  return manager
}
