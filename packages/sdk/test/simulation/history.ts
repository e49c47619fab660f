/**
 * A random history of one channel in a deterministic world: its owner invites, adds and removes, others come, talk and
 * go, and everybody, the relay too, dies at any boundary between it and its disk or network.
 */
import { toHex } from '@static/protocol'
import type { World } from '@static/testkit/world'
import type { SimulatedRelay } from '@static/testkit/world/relay'
import { Cast, type Judge, NAME } from './cast.ts'
import { disagreement, misread } from './checker.ts'
import { mayRefuse, type Page } from './page.ts'
import type { Person } from './person.ts'
import { Witness } from './witness.ts'

const STRETCHES = 3
const STEPS = 10
/** How long it may take until all agree once nobody dies any more. Hellos are repeated after 600 s at most. */
const PATIENCE_MS = 1_500_000
/** When it is first looked at again whether they agree. */
const SOON_MS = 200
export const PAUSES = [0, 0, 10, 100, 1000, 5000] as const
/** Longer than members have to prove who they are. */
const UNPROVEN_MS = 700_000
const JUMPS = [0, 0, 15_000, 75_000, 200_000] as const

/** The history of one seed. */
export class History {
  readonly #world: World
  readonly #cast: Cast
  readonly #changesHands: boolean

  /**
   * With `changesHands`, everybody has an account of their own, and others take the channel over. With `proves`, the owner
   * demands proofs, and one of the others shows those of somebody else.
   */
  constructor(world: World, { changesHands = false, proves = false }: Pick<Judge, 'changesHands' | 'proves'> = {}) {
    this.#world = world
    this.#changesHands = changesHands
    this.#cast = new Cast(world, {
      changesHands,
      proves,
      refused: (page, code, person) => (this.#mayRefuse(page, code, person) ? undefined : code),
      sent: (index, messageId) => {
        const entry = this.#log.find((one) => one.index === index)
        const isThere = entry?.kind === 'message' && isOf(messageId, entry.messageId)
        return isThere ? undefined : `acknowledged as ${index}, where it is not`
      },
    })
    const { network, people } = this.#cast
    network.middle = new Witness(
      world,
      people.map(({ name }) => name),
    )
  }

  get counts(): Record<string, number> {
    return this.#cast.counts
  }

  async run(): Promise<void> {
    const cast = this.#cast
    await cast.found(PATIENCE_MS)
    await this.#rest()
    // Those who could become the owner are vouched for and have said something.
    if (this.#changesHands) for (const person of cast.others) await this.#admit(person)
    for (let stretch = 0; stretch < STRETCHES; stretch++) {
      for (let step = 0; step < STEPS; step++) {
        cast.step([...cast.calls, ...cast.faults])
        await this.#world.pass(this.#world.pick(PAUSES) ?? 0)
      }
      await this.#quiet()
      await this.#world.pass(this.#world.pick(JUMPS) ?? 0)
    }
    if (this.#cast.office) await this.#prove()
  }

  /** Once there was time to show proofs, the owner knows who all members are. */
  async #prove(): Promise<void> {
    const { owner, stranger } = this.#cast
    await this.#world.pass(UNPROVEN_MS)
    await this.#rest()
    for (const { agentId, proof } of owner.channel(NAME)?.members() ?? []) {
      if (agentId === owner.agentId) continue
      if (agentId === stranger?.agentId) this.#cast.wrong.push('The stranger is still a member.')
      if (proof?.state !== 'checked') this.#cast.wrong.push(`The owner does not know who ${agentId} is.`)
    }
    this.#check()
  }

  async #admit(person: Person): Promise<void> {
    await this.#cast.gather(() => this.#rest(), [person])
    this.#cast.send(person)
    await this.#rest()
  }

  /** Nobody dies any more; all that was begun comes to its end, and all agree. */
  async #quiet(): Promise<void> {
    await this.#cast.recover(PATIENCE_MS)
    await this.#rest()
    this.#cast.checkIntents()
    this.#check()
    this.#cast.isDisturbed = false
    this.#world.tell('quiet')
  }

  async #rest(): Promise<void> {
    const { doing } = this.#cast
    await this.#world.until(
      () => doing.size === 0,
      PATIENCE_MS,
      () => `It does not come to an end: ${[...doing.keys()].join(', ')} ${this.#disagreement} ${this.#troubles}`,
    )
    const end = this.#world.now + PATIENCE_MS
    for (let wait = SOON_MS; this.#disagreement !== undefined; wait *= 1.5) {
      if (this.#world.now > end) throw new Error(`They do not agree: ${this.#disagreement} ${this.#troubles}`)
      await this.#world.pass(Math.round(wait))
      for (const person of this.#cast.people) person.look()
    }
  }

  get #log(): ReturnType<SimulatedRelay['disk']['log']> {
    const { owner, relay } = this.#cast
    const channel = owner.recordOf(NAME)
    return channel ? relay.disk.log(channel.id) : []
  }

  get #disagreement(): string | undefined {
    const { owner, people, relay } = this.#cast
    const channel = owner.recordOf(NAME)
    if (!channel) return 'no channel'
    const roster = relay.disk.roster(channel.id)
    return disagreement(NAME, people, roster, this.#log, this.#world.now) ?? this.#misowned(channel.id)
  }

  /** What the relay has written down of the ownership that is not so. */
  #misowned(id: string): string | undefined {
    const { owner, people, relay } = this.#cast
    const { disk } = relay
    const written = disk.ownership(id)
    const standby = owner.channel(NAME)?.standby?.agentId
    if (written?.owner !== owner.agentId) return `${owner.name} is not the owner at the relay`
    if (written.standby !== standby) return `the standby is ${standby}, at the relay ${written.standby}`
    for (const account of new Set(people.flatMap((person) => person.account ?? []))) {
      const { channels, bytes, held } = disk.booksOf(account)
      if (channels !== (account === owner.account ? 1 : 0)) return `${account} has ${channels} channels`
      if (bytes !== held) return `${bytes} bytes count for ${account}, whose channels have ${held}`
    }
    return undefined
  }

  /** What is wrong already, for the end of a history. */
  get #troubles(): string {
    const { wrong, relay } = this.#cast
    return [...wrong, ...relay.errors.map(String)].join('\n')
  }

  #mayRefuse(page: Page, code: string, person: Person): boolean {
    if (person === this.#cast.stranger && ['proof_required', 'invalid_request'].includes(code)) return true
    const { reign, hasRemoved, isDisturbed } = this.#cast
    return mayRefuse(page, code, { now: this.#world.now, reign, hasRemoved, isDisturbed })
  }

  #check(): void {
    const { people, relay, wrong } = this.#cast
    wrong.push(...misread(people, this.#log), ...this.#world.seals.wrong, ...this.#cast.misbelieved())
    for (const { failures } of people) wrong.push(...failures)
    for (const error of relay.errors) wrong.push(`relay: ${String(error)}`)
    if (wrong.length > 0) throw new Error(wrong.join('\n'))
  }
}

/** Whether a payload is one of those of a message: its id has its place among them in the last digit. */
function isOf(payload: string, messageId: Uint8Array): boolean {
  return toHex(messageId).slice(0, -1) === payload.slice(0, -1)
}
