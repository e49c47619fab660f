/**
 * The interface of a log engine. The store decides slot, index, duplicates, counters and roster, because several nodes
 * may share one.
 */
import { TransportError } from '@static/protocol'
import type { StoreEvent } from './events.ts'
import type { Time } from './log.ts'
import type { StoreOperation, StoreRequest, StoreResult } from './operations.ts'

/** How durable an answered operation is: lost with the process, on disk, or also on the disk of a standby. */
export type Durability = 'memory' | 'fsync' | 'fsync+standby'

/** How far a node's clock may be from its store's: invites, tokens and leases of all nodes expire by the clock. */
export const MAX_STORE_CLOCK_OFFSET_MS = 2000

/**
 * What to tell the operator if the clocks of a node and its store differ too much; `offsetMs` is how far the store's is
 * ahead.
 */
export function storeClockProblem(offsetMs: number): string | undefined {
  if (Math.abs(offsetMs) <= MAX_STORE_CLOCK_OFFSET_MS) return undefined
  const how = `${(Math.abs(offsetMs) / 1000).toFixed(1)} s ${offsetMs > 0 ? 'ahead of' : 'behind'}`
  return `The clock of the database is ${how} this node's. Set both by NTP.`
}

/** Secrets that all nodes of a deployment share. */
export interface Deployment {
  readonly relayId: Uint8Array
  /** The MAC key of session tokens, 32 bytes. */
  readonly tokenKey: Uint8Array
  /** The MAC key of messages between nodes, 32 bytes; undefined if the store serves one node only. */
  readonly busKey?: Uint8Array | undefined
}

/**
 * The outcome of an operation is unknown: the connection to the database was lost during the commit. If it was done, it
 * emits no event, and a retry gets the first answer.
 */
export class OutcomeUnknown extends TransportError {
  constructor(cause: unknown) {
    super('unavailable', 'The relay cannot use its store. Retry later.', { cause })
  }
}

/** An engine of the relay's log. A promise resolves once the operation is as durable as the engine can make it. */
export interface Store {
  readonly deployment: Deployment
  /**
   * Operations start in the order of the calls. Rejects only if the engine itself fails; then nothing has changed, unless
   * the error is `OutcomeUnknown`.
   */
  run<Name extends StoreOperation>(name: Name, request: StoreRequest<Name>): Promise<StoreResult<Name>>
  /** Whether the engine can write. */
  healthy(): boolean
  /** For how long it has not answered, in milliseconds; 0 while it is healthy. */
  readonly silentMs?: (() => number) | undefined
  durability(): Durability
  /** How far the store's clock was ahead of ours when last compared, in milliseconds; undefined if it is our own. */
  readonly clockOffsetMs?: (() => number | undefined) | undefined
  /** How many nodes use the store now, including this one; undefined if it serves only one. */
  readonly nodes?: (() => number) | undefined
  /**
   * Writes a copy of everything stored to a new file, while operations continue. It contains everything durable before the call.
   * Undefined if the engine has another way to make backups.
   */
  readonly backup?: ((path: string) => Promise<void>) | undefined
  /** Its contents at the last count, for the metrics; undefined before the first one. */
  readonly census?: (() => StoreCensus | undefined) | undefined
  /** Finishes all pending operations first. */
  close(): Promise<void>
}

/** The contents of a store, for the metrics. */
export interface StoreCensus {
  readonly channels: number
  /** Bytes of all logs, as the limits count them. */
  readonly logBytes: number
  /** When the oldest entry arrived that some member has not fetched. */
  readonly oldestAt: Time | undefined
  /** The size of the file, and how much of it is free for reuse. */
  readonly fileBytes: number
  readonly freeBytes: number
}

/** Receives the events of a store: in log order within a channel, each before the result of its operation. */
export type StoreListener = (event: StoreEvent) => void

/** How much a channel may keep. */
export interface Retention {
  readonly entryMs: number
  readonly messageIdMs: number
  /** Maximum size of a channel, and of all channels of an account, whatever the plan says. */
  readonly channelBytes: number
  readonly channelEntries: number
  readonly accountBytes: number
  /** Free control messages of the SDK, per agent, channel and hour. */
  readonly freeControl: number
  /** Bytes of commits and Welcomes that are free, per sender and hour. */
  readonly freeCommitBytes: number
  /** The same per channel and hour. */
  readonly freeChannelCommitBytes: number
  /** Members that anyone but the owner may add, per channel and hour. */
  readonly memberAddsPerHour: number
}
