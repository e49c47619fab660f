/** What a simulated node finds around it. */
import type { MemoryBus } from '@static/testkit/bus/memory'
import type { MemoryLedger } from '@static/testkit/store/relay-memory'
import type { SimApi } from './sim-api.ts'

export interface SimWorld {
  readonly ledger: MemoryLedger
  readonly bus: MemoryBus
  readonly api: SimApi
  readonly errors: unknown[]
  readonly now: number
  readonly nodeCount: number
  /** Whether streams break and the store fails. */
  readonly faults: boolean
  /** How often the store did something and its node does not know. */
  unknown: number
  below(limit: number): number
  chance(share: number): boolean
  bytes(length: number): Uint8Array
  /** Something happens when its turn comes: in order within a lane. */
  post(lane: string, task: () => unknown): void
  forget(...lanes: readonly string[]): void
  /** In pieces, which need not end where cells do. */
  carry(lane: string, bytes: Uint8Array, take: (chunk: Uint8Array) => void): void
  /** The store does something, at once and for good. */
  readonly execute: MemoryLedger['run']
}
