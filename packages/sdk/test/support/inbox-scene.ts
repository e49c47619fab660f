/** An inbox of its own, for tests. */
import { StaticError } from '@static/protocol'
import { Inbox, type InboxTable, type Incoming, placeOf } from '../../src/channel/receiving/inbox.ts'
import type { Change, InboxPlace, InboxRecord } from '../../src/ports/index.ts'

export const ID: string = '00'.repeat(16)

/** An inbox with a disk, by the places of payloads: those of a pack follow its index by sixteenths. */
export class Scene {
  readonly disk: Map<number, InboxRecord> = new Map()
  readonly inbox: Inbox
  pages = 0
  isDiskBroken = false
  /** When the inbox wanted to be written. */
  readonly asked: string[] = []
  /** As the channel's record says on disk. */
  givenUpTo: number
  #isRecordDue = false
  #isTurnEnding = false
  #position = 0
  /** The disk said so at the start. */
  readonly #before: number

  constructor(stored: readonly InboxRecord[] = [], givenUpTo = 0) {
    for (const record of stored) this.disk.set(keyOf(record), record)
    const bytes = stored.reduce((sum, { ciphertext }) => sum + ciphertext.length, 0)
    const touch = (): void => {
      this.#isRecordDue = true
      // The turn ends soon.
      this.#isTurnEnding = true
      queueMicrotask(() => {
        if (this.#isTurnEnding) this.write()
      })
    }
    const touchPart = (): void => void this.asked.push('now')
    const touchPartLater = (): void => void this.asked.push('later')
    const found = { messages: stored.length, bytes, first: stored[0]?.index ?? 0, givenUpTo }
    const table: InboxTable = {
      put: (id, record) => ({ type: 'putInbox', id, record }),
      drop: (id, place) => ({ type: 'dropInbox', id, place: placeOf(place) }),
      keep: () => [],
      page: (after, limit) => this.#page(after, limit),
    }
    this.inbox = new Inbox({ id: ID, turn: { touch, touchPart, touchPartLater } as never }, table, found)
    this.givenUpTo = givenUpTo
    this.#before = givenUpTo
    if (stored.length > 0) return
    // Somebody has begun to read: the disk says so.
    const first = this.inbox.read(({ record }) => record.index)
    void first.next()
    this.write()
    void first.return?.()
  }

  arrive(index: number, bytes = 1): void {
    this.#position = index
    this.#isRecordDue = true
    this.inbox.arrive(incoming(index, bytes))
  }

  /** A pack arrives, whose payloads are so long. */
  arrivePack(index: number, ...sizes: readonly number[]): void {
    this.#position = index
    this.#isRecordDue = true
    this.inbox.arrive(...sizes.map((bytes, part) => partOf(index, part, bytes)))
  }

  /** The channel is at this index. */
  jump(index: number): void {
    this.#position = index
  }

  /** The turn ends. */
  write(): readonly Change[] {
    if (this.#isRecordDue) this.givenUpTo = this.inbox.boundAt(this.#position)
    this.#isRecordDue = false
    this.#isTurnEnding = false
    const changes = this.inbox.drain()
    for (const change of changes) {
      if (change.type === 'putInbox') this.disk.set(keyOf(change.record), change.record)
      if (change.type === 'dropInbox') this.disk.delete(keyOf(change.place))
    }
    this.inbox.serveWritten()
    return changes
  }

  #isOld({ index }: InboxRecord): boolean {
    return index <= this.#before
  }

  #page(after: number, limit: number): Incoming[] | StaticError {
    this.pages++
    if (this.isDiskBroken) return StaticError.of('store_corrupt')
    this.write()
    const rows = [...this.disk.values()].filter(({ index }) => index > after).sort((a, b) => keyOf(a) - keyOf(b))
    // Never a part of a pack's.
    const last = rows.slice(0, limit).at(-1)?.index ?? 0
    return rows
      .filter(({ index }) => index <= last)
      .map((record) => ({ ...incoming(record.index), record, redelivered: this.#isOld(record) }))
  }
}

export function incoming(index: number, bytes = 1): Incoming {
  const record = {
    index,
    part: 0,
    messageId: new Uint8Array(16),
    sender: 'aa'.repeat(32),
    identity: new Uint8Array(1),
    epoch: 1,
    receivedAt: 0,
    ciphertext: new Uint8Array(bytes),
    messageKey: new Uint8Array(32).fill(1),
    attempts: 0,
  }
  return { record, payload: Buffer.from(`${index}`), redelivered: false }
}

/** A payload of a pack, which is not encrypted for the disk. */
function partOf(index: number, part: number, bytes: number): Incoming {
  const { record } = incoming(index)
  const nothing = new Uint8Array()
  const payload = Buffer.alloc(bytes, `${index}.${part}`)
  return { record: { ...record, part, ciphertext: nothing, messageKey: nothing }, payload, redelivered: false }
}

function keyOf({ index, part }: InboxPlace): number {
  return index + part / 16
}
