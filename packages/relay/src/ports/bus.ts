/**
 * News between the nodes of a deployment. It only makes deliveries faster: messages may be lost, duplicated, delayed
 * and reordered, and a node that misses one finds it in the store.
 */
import type { AgentId, ChannelId, MemberReceipt, Time } from './log.ts'
import type { Account } from './outcome.ts'
import type { StoreEvent } from './events.ts'

/** Identifies a node while it runs: 32 hexadecimal digits, new with every start. */
export type NodeId = string

/**
 * The recipients of a message: the nodes with readers of a channel, those with an agent's session or KeyPackages, or
 * one node.
 */
export type Topic = `c.${ChannelId}` | `a.${AgentId}` | `n.${NodeId}`

/** A KeyPackage on its way to the node of its agent's session. */
export interface MovedKeyPackage {
  readonly bytes: Uint8Array
  /** SHA-256, hexadecimal. */
  readonly hash: string
  readonly notAfter: Time
}

/** News from one node to others. */
export type News =
  /** An event of the store. `number` counts the sender's events: one may come on several topics. */
  | { readonly type: 'event'; readonly number: number; readonly event: StoreEvent }
  /** A log has grown; the entry is too large for a message. */
  | { readonly type: 'reached'; readonly channel: ChannelId; readonly index: number }
  /** Receipts from members at the sender. Not events: an agent gets what is lost with its next Resume. */
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

/** The state of a bus, as shown outside. */
export interface BusState {
  /** Whether there is a connection now. */
  readonly connected: boolean
  /** Other nodes heard recently. */
  readonly nodes: number
}

/** Counts of a bus, for the metrics. */
export interface BusCounts {
  /** Messages accepted. */
  readonly received: number
  /** Messages dropped: wrong MAC, seen before, too old or ahead, or while it ignores everything. */
  readonly dropped: Readonly<Record<'mac' | 'replay' | 'stale' | 'deaf', number>>
  /** Number of reconnections. */
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
  /** Runs timed work; called a few times per second. */
  tick(): void
  close(): Promise<void>
}

/** Receives news from a bus. */
export interface BusListener {
  news(news: News, from: NodeId): void
  /** Messages may have been missed: query the store. */
  doubt(): void
}

/** A message service that carries bytes and keeps nothing: NATS, or memory in tests. */
export interface BusWire {
  readonly connected: boolean
  /** Whether it is connected and the other end answers: a connection that merely stands may deliver nothing. */
  readonly hears: boolean
  /** The longest message that it carries. */
  readonly maxBytes: number
  publish(subject: string, bytes: Uint8Array): void
  subscribe(subject: string): void
  unsubscribe(subject: string): void
  close(): Promise<void>
}

/** Receives messages from a wire. */
export interface WireListener {
  received(subject: string, bytes: Uint8Array): void
  /** It connected, lost its connection, or dropped messages. */
  changed(): void
}

/** Opens a wire; it connects when it can. */
export type OpenWire = (listener: WireListener) => BusWire
