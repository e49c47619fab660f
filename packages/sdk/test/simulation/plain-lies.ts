/** Lies of a relay that an agent must notice by itself and at once. They are told in a quiet moment, when nobody dies. */
import { toHex } from '@static/protocol'
import { type Cast, NAME } from './cast.ts'
import type { Liar, Said } from './liar.ts'
import type { Person } from './person.ts'

/** More requests than there are. */
const LATER = 1000n

/** A lie, for as long as it is told. */
export interface PlainLie {
  readonly kind: 'another entry' | 'another declaration' | 'a request again'
  readonly about: string
  /** Whether it was told. If not, it is not told any more. */
  isTold(): boolean
}

/** The plain lies of one world. */
export class PlainLies {
  readonly #cast: Cast
  readonly #liar: Liar
  /** How often the owner had tried to add somebody before its request came again. */
  #added = 0

  constructor(cast: Cast, liar: Liar) {
    this.#cast = cast
    this.#liar = liar
  }

  /** Tells one of them to somebody. Returns undefined if there is nothing to lie about. */
  tell(victim: Person): PlainLie | undefined {
    const { world } = this.#cast
    const lie = world.random() < 0.5 ? this.#anotherEntry(victim) : this.#anotherDeclaration(victim)
    if (lie) world.tell(`the relay tells ${victim.name} ${lie.about}`)
    return lie
  }

  /** Tells the owner of a request to join again. */
  replay({ name, agentId }: Person): PlainLie | undefined {
    const { owner, world } = this.#cast
    const isOwn = (request: { readonly agentId: Uint8Array }): boolean => toHex(request.agentId) === agentId
    const request = this.#liar
      .told(owner.name)
      .flatMap((body) => (body.case === 'pollJoinRequests' ? body.value.requests.filter(isOwn) : []))
      .at(-1)
    if (!request) return undefined
    this.#added = this.#additions(agentId)
    this.#liar.change(owner.name, (body) => {
      if (body.case !== 'pollJoinRequests') return undefined
      const again = { ...request, number: request.number + LATER }
      return { ...body, value: { ...body.value, requests: [...body.value.requests, again] } }
    })
    world.tell(`the relay tells the owner again that ${name} wants to join`)
    return {
      kind: 'a request again',
      about: `the last request of ${name} again`,
      isTold: () => !this.#liar.unchange(owner.name),
    }
  }

  /** Whether the owner has tried to add somebody since its request came again. */
  isAdded({ agentId }: Person): boolean {
    return this.#additions(agentId) > this.#added
  }

  #additions(agentId: string): number {
    const asked = this.#liar.askedBy(this.#cast.owner.name)
    return asked.filter(
      (body) =>
        body.case === 'sendCommit' && body.value.declaration?.adds.some((added) => toHex(added) === agentId) === true,
    ).length
  }

  /** In place of one that the victim has read. */
  #anotherEntry(victim: Person): PlainLie | undefined {
    const { name, agentId } = victim
    const { position, since } = victim.history(NAME)
    const isRead = (body: Said): boolean =>
      body.case === 'deliverMessage' &&
      toHex(body.value.sender) !== agentId &&
      body.value.index > since &&
      body.value.index <= position.index
    const entry = this.#cast.world.pick(this.#liar.told(name).filter(isRead))
    if (entry?.case !== 'deliverMessage') return undefined
    const { value } = entry
    this.#liar.tell(name, { ...entry, value: { ...value, messageId: flipped(value.messageId) } })
    return { kind: 'another entry', about: `another entry ${value.index}`, isTold: () => true }
  }

  /** The next commit of the owner, as if somebody else had said what it changes. */
  #anotherDeclaration({ name, agentId }: Person): PlainLie | undefined {
    const { owner } = this.#cast
    this.#liar.change(name, (body) => {
      if (body.case !== 'deliverCommit' || toHex(body.value.sender) === agentId) return undefined
      const { declaration } = body.value
      if (!declaration) return undefined
      const signature = flipped(declaration.signature)
      return { ...body, value: { ...body.value, declaration: { ...declaration, signature } } }
    })
    this.#cast.do('owner rotates', owner, ({ client }) => client.channel(NAME).rotate())
    return {
      kind: 'another declaration',
      about: 'a commit with the declaration of somebody else',
      isTold: () => !this.#liar.unchange(name),
    }
  }
}

function flipped(bytes: Uint8Array): Uint8Array {
  return bytes.with(0, (bytes[0] ?? 0) ^ 1)
}
