/**
 * News between the nodes of a deployment. It only makes deliveries faster: messages may be lost, doubled, delayed and
 * reordered, and whoever misses one finds it in the store.
 */
import type { AgentId, ChannelId, MemberReceipt, Time } from './log.ts'
import type { Account } from './outcome.ts'
import type { StoreEvent } from './events.ts'

/** Identifies a node while it runs: 32 hexadecimal digits, new with every start. */
export type NodeId = string

/** To whom a message goes: the nodes with readers of a channel, with an agent's session or KeyPackages, or one node. */
export type Topic = `c.${ChannelId}` | `a.${AgentId}` | `n.${NodeId}`

/** A KeyPackage on its way to the node of its agent's session. */
export interface MovedKeyPackage {
  readonly bytes: Uint8Array
  /** SHA-256, hexadecimal. */
  readonly hash: string
  readonly notAfter: Time
}

/** What a node tells others. */
export type News =
  /** Something happened in the store. `number` counts these at the sender: one may come on several topics. */
  | { readonly type: 'event'; readonly number: number; readonly event: StoreEvent }
  /** A log has grown; the entry is too large for a message. */
  | { readonly type: 'reached'; readonly channel: ChannelId; readonly index: number }
  /** Members at the sender have sent receipts. Not in the events: what is lost, an agent gets with its next Resume. */
  | { readonly type: 'receipts'; readonly channel: ChannelId; readonly receipts: readonly MemberReceipt[] }
  /** An agent has opened a session at the sender. `at`: by the store's clock. */
  | { readonly type: 'entered'; readonly agent: AgentId; readonly at: Time }
  /** A member at the sender wants one KeyPackage of an agent, for this account. */
  | { readonly type: 'claim'; readonly id: number; readonly agent: AgentId; readonly account: Account }
  /** The answer: a KeyPackage, a wait because the account has had its share, or neither. */
  | {
      readonly type: 'claimed'
      readonly id: number
      readonly keyPackage: Uint8Array | undefined
      readonly waitMs: number
    }
  /** KeyPackages of an agent that now has its session at the receiver. */
  | {
      readonly type: 'moved'
      readonly agent: AgentId
      readonly account: Account
      readonly keyPackages: readonly MovedKeyPackage[]
    }

/** What the outside may know of a bus. */
export interface BusState {
  /** Whether there is a connection now. */
  readonly connected: boolean
  /** Other nodes that were heard lately. */
  readonly nodes: number
}

/** What a bus has done, for the metrics. */
export interface BusCounts {
  /** Messages that were taken. */
  readonly received: number
  /** Messages that were not: a wrong MAC, seen before, too old or ahead, or while it listens to none. */
  readonly dropped: Readonly<Record<'mac' | 'replay' | 'stale' | 'deaf', number>>
  /** How often the connection was made again. */
  readonly reconnects: number
  /** How often messages may have been missed. */
  readonly doubts: number
}

/** The way to the other nodes. */
export interface Bus {
  readonly node: NodeId
  readonly state: BusState
  readonly counts: BusCounts
  /** Sends without waiting. Nothing is sent while no other node is known. */
  publish(topic: Topic, news: News): void
  watch(topic: Topic): void
  unwatch(topic: Topic): void
  /** Does what is due, a few times per second. */
  tick(): void
  close(): Promise<void>
}

/** Receives what a bus brings. */
export interface BusListener {
  news(news: News, from: NodeId): void
  /** Messages may have been missed: the store must be asked. */
  doubt(): void
}

/** A message service that carries bytes and keeps nothing: NATS, or memory in tests. */
export interface BusWire {
  readonly connected: boolean
  /** Whether it is connected and the other end answers: otherwise nothing may come, although the connection stands. */
  readonly hears: boolean
  /** The longest message that it takes. */
  readonly maxBytes: number
  publish(subject: string, bytes: Uint8Array): void
  subscribe(subject: string): void
  unsubscribe(subject: string): void
  close(): Promise<void>
}

/** Receives what a wire brings. */
export interface WireListener {
  received(subject: string, bytes: Uint8Array): void
  /** It connected, lost its connection, or dropped messages. */
  changed(): void
}

/** Opens a wire; it connects when it can. */
export type OpenWire = (listener: WireListener) => BusWire
