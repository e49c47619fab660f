/**
 * A relay that lies, by seed: between the honest core and its agents it drops, repeats, reorders, withholds and changes
 * what is told, replays what it has told anybody or was asked by anybody, refuses for no reason, and says that it has
 * stored what it has not.
 */
import { create } from '@bufbuild/protobuf'
import { ERRORS } from '@static/protocol'
import { type ClientMessage, ErrorSchema, type ServerMessage } from '@static/protocol/relay'
import type { World } from '@static/testkit/world'
import type { Middle, MiddleLine } from '@static/testkit/world/middle'
import { altered } from './altered.ts'
import { watchSeals } from './witness.ts'

type Asked = ClientMessage['body']
export type Said = ServerMessage['body']
/** What an agent is told instead of something; undefined if that is not to be changed. */
type Change = (body: Said) => Said | undefined

/** What somebody was told. */
interface Telling {
  readonly agent: string
  readonly body: Said
}

const LIES = [
  'drop',
  'repeat',
  'reorder',
  'withhold',
  'alter',
  'replay',
  'give another',
  'refuse',
  'store nothing',
  'ask again',
  'lose acks',
] as const

type Lie = (typeof LIES)[number]

/** How often it lies, of all messages. */
const RATES = [0.03, 0.15, 0.5] as const
/** What it remembers, of anybody. */
const MOST_KEPT = 400
/** Requests of its own in the name of agents are numbered from here on. */
const OWN_REQUESTS = 1n << 40n
/** An agent that is not let in says nothing that could be lied about. */
const OPENING: ReadonlySet<string | undefined> = new Set(['getChallenge', 'openSession', 'refreshSession'])
const CODES = Object.keys(ERRORS)
/** What it says with each. */
export const LIE = 'No.'

/** Who lies. */
export class Liar implements Middle {
  /** Whether it does so now. */
  isLying = false
  /** How often it has. */
  readonly counts: Record<string, number> = {}
  readonly #world: World
  readonly #lies: readonly Lie[]
  readonly #rate: number
  /** Whom it lies to. */
  readonly #victims: ReadonlySet<string>
  readonly #said: Telling[] = []
  readonly #asked: { readonly agent: string; readonly body: Asked }[] = []
  readonly #held: { readonly line: MiddleLine; readonly message: ServerMessage }[] = []
  readonly #next = new Map<MiddleLine, ServerMessage>()
  /** The last of each agent. */
  readonly #lines = new Map<string, MiddleLine>()
  readonly #changes = new Map<string, Change>()
  #requests = OWN_REQUESTS

  constructor(world: World, agents: readonly string[]) {
    this.#world = world
    this.#lies = LIES.filter(() => world.random() < 0.4)
    this.#rate = world.pick(RATES) ?? 0
    const some = agents.filter(() => world.random() < 0.6)
    this.#victims = new Set(some.length > 0 ? some : agents)
    world.tell(`the relay lies to ${[...this.#victims].join(', ')} (${this.#rate}): ${this.#lies.join(', ')}`)
  }

  /** Says at last what it has withheld, and does not lie any more. */
  repent(): void {
    this.isLying = false
    for (const { line, message } of this.#held.splice(0)) line.say(message)
    for (const [line, message] of this.#next) line.say(message)
    this.#next.clear()
  }

  /** What the relay has told an agent, as far as it remembers. */
  told(agent: string): readonly Said[] {
    return this.#said.flatMap((telling) => (telling.agent === agent ? [telling.body] : []))
  }

  /** What an agent has asked, as far as it remembers. */
  askedBy(agent: string): readonly Asked[] {
    return this.#asked.flatMap((asking) => (asking.agent === agent ? [asking.body] : []))
  }

  /** Tells an agent something now. */
  tell(agent: string, body: Said): void {
    this.#lines.get(agent)?.say(serverMessage(0n, body))
  }

  /** Tells an agent something else instead of the first thing that this changes. */
  change(agent: string, change: Change): void {
    this.#changes.set(agent, change)
  }

  /** Takes a change back. Returns whether it was still to be made. */
  unchange(agent: string): boolean {
    return this.#changes.delete(agent)
  }

  asked(line: MiddleLine, message: ClientMessage): readonly ClientMessage[] {
    const { body } = message
    this.#lines.set(line.agent, line)
    watchSeals(this.#world, line.agent, message)
    const before = this.#asked.filter(({ agent }) => agent === line.agent)
    if (!OPENING.has(body.case)) remember(this.#asked, { agent: line.agent, body })
    if (OPENING.has(body.case)) return [message]
    if (this.#tells('store nothing', line)) {
      const answer = this.#said.findLast((one) => one.body.case === body.case)
      const made = answer && altered(this.#world, answer.body)
      if (made) {
        line.say(serverMessage(message.requestId, made))
        return []
      }
    }
    const old = this.#tells('ask again', line) ? this.#world.pick(before) : undefined
    return old ? [message, { ...message, requestId: ++this.#requests, body: old.body }] : [message]
  }

  acknowledged(line: MiddleLine): boolean {
    return !this.#tells('lose acks', line)
  }

  said(line: MiddleLine, message: ServerMessage): readonly ServerMessage[] {
    const { requestId, body } = message
    // Answers to its own questions.
    if (requestId > OWN_REQUESTS) return []
    if (OPENING.has(body.case) || body.case === 'sessionClosing') return [message]
    const changed = this.#changes.get(line.agent)?.(body)
    if (changed) {
      this.#changes.delete(line.agent)
      return [serverMessage(requestId, changed)]
    }
    const before = [...this.#said]
    remember(this.#said, { agent: line.agent, body })
    const first = this.#next.get(line)
    this.#next.delete(line)
    return [...this.#told(line, message, before), ...(first ? [first] : [])]
  }

  #told(line: MiddleLine, message: ServerMessage, before: readonly Telling[]): readonly ServerMessage[] {
    const { requestId, body } = message
    const isPush = requestId === 0n
    const alike = before.filter((one) => one.body.case === body.case)
    if (this.#tells('drop', line)) return []
    if (this.#tells('withhold', line)) {
      this.#held.push({ line, message })
      return []
    }
    if (isPush && this.#tells('repeat', line)) return [message, message]
    if (isPush && this.#tells('reorder', line)) {
      this.#next.set(line, message)
      return []
    }
    if (!isPush && this.#tells('refuse', line)) {
      const value = create(ErrorSchema, { code: this.#world.pick(CODES) ?? '', message: LIE })
      return [serverMessage(requestId, { case: 'error', value })]
    }
    if (this.#tells('alter', line)) return [serverMessage(requestId, altered(this.#world, body))]
    const own = alike.filter(({ agent }) => agent === line.agent)
    const old = this.#tells('replay', line) ? this.#world.pick(own) : undefined
    const foreign = this.#tells('give another', line) ? this.#world.pick(alike) : undefined
    const told = old ?? foreign
    if (!told) return [message]
    const again = serverMessage(requestId, told.body)
    return isPush && this.#world.random() < 0.5 ? [message, again] : [again]
  }

  /** Whether it tells this lie now. */
  #tells(lie: Lie, { agent }: MiddleLine): boolean {
    if (!this.isLying || !this.#victims.has(agent) || !this.#lies.includes(lie)) return false
    if (this.#world.random() >= this.#rate) return false
    for (const what of [lie, 'lies']) this.counts[what] = (this.counts[what] ?? 0) + 1
    this.#world.note(`lie to ${agent}: ${lie}`)
    return true
  }
}

function remember<Item>(list: Item[], item: Item): void {
  list.push(item)
  if (list.length > MOST_KEPT) list.shift()
}

export function serverMessage(requestId: bigint, body: Said): ServerMessage {
  return { $typeName: 'static.relay.v1.ServerMessage', requestId, sessionToken: '', body }
}
