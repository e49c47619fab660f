/**
 * Output of session streams: everything for a stream from one turn of the event loop goes out in one write, and
 * identical data for many streams is passed to the transport once.
 */
import { randomInt } from 'node:crypto'
import type { StreamId, Time, Transport } from '../ports.ts'
import type { Shaping } from '../session/shaping.ts'
import type { RunnerContext } from './context.ts'
import { type Link, type Mark, markCell, type Packet } from './link.ts'

const MAX_MARK = 2 ** 48 - 1

/** Writes to links. */
export class LinkWriter {
  readonly #context: RunnerContext
  readonly #shaping: Shaping
  readonly #ended: (link: Link) => void
  readonly #dirty = new Set<Link>()
  #lastPacket = 0
  #flushing = false

  /** `ended` is called for every link whose last cells have been sent. */
  constructor(context: RunnerContext, shaping: Shaping, ended: (link: Link) => void) {
    this.#context = context
    this.#shaping = shaping
    this.#ended = ended
  }

  /** Wraps cells in a packet with a new id. */
  packet(cells: Uint8Array): Packet {
    this.#lastPacket++
    return { id: String(this.#lastPacket), cells }
  }

  push(link: Link, packet: Packet, last = false): void {
    if (link.ending) return
    if (!link.push(packet, last)) {
      queueMicrotask(() => this.#context.handle({ type: 'stalled', stream: link.id }))
      return
    }
    this.schedule(link)
    // Reported immediately, so that later entries of this turn stay in the log.
    if (link.isFull) this.#reportRoom(link)
  }

  ping(link: Link, now: Time): void {
    const { number, cells } = this.#mark()
    link.ping(number, now)
    if (link.paced) link.transport.write([link.id], cells, true)
    else this.#shaping.write(link.transport, [link.id], cells)
  }

  /** Schedules output for a link that has something to send, or ends. */
  schedule(link: Link): void {
    this.#dirty.add(link)
    if (this.#flushing) return
    this.#flushing = true
    // After the last microtask, so that all results of one batch of the store are included: a sender's answer and its
    // own entry go out in one unit, as cover does.
    queueMicrotask(() => process.nextTick(() => this.#flush()))
  }

  /** Forgets a closed link. */
  drop(link: Link): void {
    this.#dirty.delete(link)
  }

  /** An unguessable number: a peer that returns it has read what came before it. */
  #mark(): Mark {
    const number = randomInt(MAX_MARK)
    return { ...this.packet(markCell(number)), number }
  }

  #flush(): void {
    this.#flushing = false
    const groups = new Map<string, { transport: Transport; packets: Packet[]; streams: StreamId[] }>()
    const ended: Link[] = []
    for (const link of this.#dirty) {
      const packets = link.take(() => this.#mark())
      if (packets.length > 0) {
        const key = `${link.peer.transport}${packets.map(({ id }) => id).join()}`
        const group = groups.get(key)
        if (group) group.streams.push(link.id)
        else groups.set(key, { transport: link.transport, packets, streams: [link.id] })
      }
      if (link.ending) ended.push(link)
    }
    const links = [...this.#dirty]
    this.#dirty.clear()
    for (const { transport, packets, streams } of groups.values())
      this.#shaping.write(transport, streams, joined(packets))
    for (const link of ended) this.#ended(link)
    for (const link of links) this.#reportRoom(link)
  }

  #reportRoom(link: Link): void {
    if (link.ending || link.congested === !link.hasRoom) return
    link.congested = !link.hasRoom
    if (link.congested) link.progressAt = this.#context.now()
    this.#context.handle({ type: link.congested ? 'congested' : 'drained', stream: link.id })
  }
}

function joined(packets: readonly Packet[]): Uint8Array {
  const [first] = packets
  if (first && packets.length === 1) return first.cells
  return Buffer.concat(packets.map(({ cells }) => cells))
}
