/**
 * A node's end of the bus, over any wire: seals what goes out, and accepts only what another node of the deployment
 * sealed for this subject recently, and only once. Nodes send heartbeats, so that each knows of the others.
 */
import { hash } from 'node:crypto'
import { toHex } from '@static/protocol'
import type { Bus, BusCounts, BusListener, BusState, BusWire, News, NodeId, OpenWire, Time, Topic } from '../ports.ts'
import { encodeItem, FRAME_OVERHEAD, openFrame, sealFrame } from './frame.ts'
import { Senders } from './senders.ts'

/** Options of a bus. */
export interface NodeBusOptions {
  readonly relayId: Uint8Array
  /** 32 bytes. */
  readonly key: Uint8Array
  readonly node: NodeId
  readonly wire: OpenWire
  /** The wall clock. */
  readonly now: () => Time
  readonly monotonic: () => Time
}

const BEAT_MS = 1000
/** A node silent for this long may have died between writing an event and announcing it. */
const SILENT_MS = 3500
/** Messages whose time differs by more than this are replays, or their sender's clock is wrong. */
const FRESH_MS = 30_000
/** Maximum number of forged or malformed messages checked per second. Beyond it, everything is ignored for a while. */
const MAX_BAD = 1000
const DEAF_MS = 30_000

export class NodeBus implements Bus {
  readonly node: NodeId
  readonly #options: NodeBusOptions
  readonly #listener: BusListener
  readonly #prefix: string
  readonly #wire: BusWire
  readonly #senders = new Senders()
  /** Messages queued in this turn of the event loop, by topic. */
  readonly #waiting = new Map<Topic, Uint8Array[]>()
  #number = 0
  #beatAt: Time = -Infinity
  #bad = { count: 0, since: 0 }
  #deafUntil: Time = -Infinity
  #isFlushing = false
  #wasConnected = false
  /** Whether it has ever been connected. */
  #isKnown = false
  readonly #counts = { received: 0, reconnects: 0, doubts: 0 }
  readonly #dropped = { mac: 0, replay: 0, stale: 0, deaf: 0 }

  constructor(options: NodeBusOptions, listener: BusListener) {
    this.#options = options
    this.#listener = listener
    this.node = options.node
    this.#prefix = `static.${toHex(hash('sha256', options.relayId, 'buffer').subarray(0, 16))}.`
    this.#wire = options.wire({
      received: (subject, bytes) => this.#received(subject, bytes),
      changed: () => {
        this.#noteConnection()
        this.#changed()
      },
    })
    this.#noteConnection()
    this.#wire.subscribe(`${this.#prefix}beat`)
    this.#wire.subscribe(`${this.#prefix}n.${options.node}`)
  }

  get state(): BusState {
    return { connected: this.#isHearing, nodes: this.#senders.size }
  }

  get counts(): BusCounts {
    return { ...this.#counts, dropped: { ...this.#dropped } }
  }

  publish(topic: Topic, news: News): void {
    if (this.#senders.size === 0) return
    const { maxBytes } = this.#wire
    const item = encodeItem(news)
    const small = item.length + FRAME_OVERHEAD <= maxBytes ? item : smaller(news)
    if (small === undefined) return
    const waiting = this.#waiting.get(topic)
    if (waiting) waiting.push(small)
    else this.#waiting.set(topic, [small])
    if (this.#isFlushing) return
    this.#isFlushing = true
    queueMicrotask(() => this.#flush())
  }

  watch(topic: Topic): void {
    this.#wire.subscribe(this.#prefix + topic)
  }

  unwatch(topic: Topic): void {
    this.#wire.unsubscribe(this.#prefix + topic)
  }

  tick(): void {
    const now = this.#options.monotonic()
    if (this.#senders.forgetSilent(now - SILENT_MS)) this.#doubt()
    if (now - this.#beatAt < BEAT_MS) return
    this.#beatAt = now
    this.#send(`${this.#prefix}beat`, [])
  }

  async close(): Promise<void> {
    this.#flush()
    await this.#wire.close()
  }

  get #isHearing(): boolean {
    return this.#wire.hears && this.#options.monotonic() >= this.#deafUntil
  }

  #changed(): void {
    // Messages sent meanwhile were missed, and other nodes must hear of this one at once.
    this.#beatAt = -Infinity
    this.#doubt()
  }

  #doubt(): void {
    this.#counts.doubts += 1
    this.#listener.doubt()
  }

  #noteConnection(): void {
    const { connected } = this.#wire
    if (connected && !this.#wasConnected && this.#isKnown) this.#counts.reconnects += 1
    this.#wasConnected = connected
    this.#isKnown ||= connected
  }

  #flush(): void {
    this.#isFlushing = false
    for (const [topic, items] of this.#waiting) {
      const subject = this.#prefix + topic
      let batch: Uint8Array[] = []
      let bytes = FRAME_OVERHEAD
      for (const item of items) {
        if (batch.length > 0 && bytes + item.length > this.#wire.maxBytes) {
          this.#send(subject, batch)
          batch = []
          bytes = FRAME_OVERHEAD
        }
        batch.push(item)
        bytes += item.length
      }
      this.#send(subject, batch)
    }
    this.#waiting.clear()
  }

  #send(subject: string, items: readonly Uint8Array[]): void {
    if (!this.#wire.connected) return
    const { key, node, now } = this.#options
    this.#wire.publish(subject, sealFrame(key, subject, { node, number: ++this.#number, time: now() }, items))
  }

  #received(subject: string, bytes: Uint8Array): void {
    const { key, node, now, monotonic } = this.#options
    const at = monotonic()
    if (at < this.#deafUntil) return void (this.#dropped.deaf += 1)
    const frame = openFrame(key, subject, bytes)
    if (frame === undefined) return this.#noteBad(at)
    if (frame.node === node) return
    if (Math.abs(frame.time - now()) > FRESH_MS) return void (this.#dropped.stale += 1)
    const known = this.#senders.size
    if (!this.#senders.isNew(frame.node, frame.number, at)) return void (this.#dropped.replay += 1)
    this.#counts.received += 1
    // A node that is new to us does not know us either, and may have written something without telling us.
    if (this.#senders.size > known) this.#changed()
    for (const news of frame.items()) this.#listener.news(news, frame.node)
  }

  #noteBad(at: Time): void {
    this.#dropped.mac += 1
    if (at - this.#bad.since > 1000) this.#bad = { count: 0, since: at }
    if (++this.#bad.count < MAX_BAD) return
    this.#bad = { count: 0, since: at }
    this.#deafUntil = at + DEAF_MS
    this.#doubt()
  }
}

/** A short notice in place of news that is too large to send; undefined if there is none. */
function smaller(news: News): Uint8Array | undefined {
  if (news.type !== 'event' || news.event.type !== 'appended') return undefined
  const { channel, entry } = news.event
  return encodeItem({ type: 'reached', channel, index: entry.index })
}
