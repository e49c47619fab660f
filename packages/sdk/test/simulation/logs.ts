/** Every log that was ever shown, and where the senders of messages stood in them: who must know that there are several. */
import { hash } from 'node:crypto'
import { toHex } from '@static/protocol'
import type { RelayDisk } from '@static/testkit/world/disk'
import { parsePrivateMessage } from '../../src/mls/framing.ts'
import { type Cast, NAME } from './cast.ts'
import type { Person, Reading } from './person.ts'

type Entry = ReturnType<RelayDisk['log']>[number]

/** An entry of a log. Its hash is that of the whole log until then. */
interface Place {
  readonly index: number
  readonly hash: string
}

/** The logs of one world. */
export class Logs {
  readonly #cast: Cast
  /** By hash, the entry before. */
  readonly #before = new Map<string, Place>()
  /** Where somebody stood when it encrypted something, by the hash of that. */
  readonly #sealed = new Map<string, Place>()
  /** The same by message. */
  readonly #sent = new Map<string, Place>()

  constructor(cast: Cast) {
    this.#cast = cast
    cast.world.seals.onSeal = (text) => this.#seal(text)
    cast.relay.disk.onEntry((disk, channel, entry) => this.#entry(disk.log(channel), entry))
  }

  /** What somebody should know that has read a message and knows of no fork. */
  unnoticed(person: Person, { messageId, text, redelivered }: Reading): string | undefined {
    const seen = this.#sent.get(messageId)
    if (!seen || redelivered) return undefined
    const { position, since } = person.history(NAME)
    if (seen.index < since) return undefined
    const own = this.#at({ index: position.index, hash: toHex(position.hash) }, seen.index)
    if (own === undefined) return undefined
    this.#cast.count('compared')
    if (own === seen.hash) return undefined
    return `${person.name} knows of no fork after ${text}, whose sender has seen another entry ${seen.index}`
  }

  #seal(text: string): void {
    const { acting } = this.#cast.world
    const person = this.#cast.people.find(({ machine }) => machine === acting)
    if (!person?.channel(NAME)) return
    const { index, hash } = person.history(NAME).position
    this.#sealed.set(text, { index, hash: toHex(hash) })
  }

  #entry(log: readonly Entry[], { index, hash: own, ...entry }: Entry): void {
    const before = log.at(-2)
    this.#before.set(toHex(own), { index: index - 1, hash: before ? toHex(before.hash) : '' })
    if (!('ciphertext' in entry)) return
    const parts = parsePrivateMessage(entry.ciphertext)
    const seen = parts && this.#sealed.get(hash('sha256', parts.ciphertext))
    if (seen) this.#sent.set(toHex(entry.messageId).slice(0, -1), seen)
  }

  /** The hash of an entry in the log that goes on to a place; undefined if no relay has had that log. */
  #at(place: Place, index: number): string | undefined {
    let at: Place | undefined = place
    if (index > place.index) return this.#before.has(place.hash) ? 'none' : undefined
    while (at && at.index > index) at = this.#before.get(at.hash)
    return at && this.#before.has(at.hash) ? at.hash : undefined
  }
}
