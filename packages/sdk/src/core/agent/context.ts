/** What the channels of one agent share. */
import type { MlsEngine, SignatureKeyPair } from '../../mls/index.ts'
import type { AgentId, ChannelId, InboxRecord, RelaySession, Time } from '../../ports.ts'
import type { AgentEvent } from './events.ts'
import type { Journal } from '../channel/journal.ts'
import type { Pins } from './pins.ts'

/** The agent, as a channel sees it. */
export interface World {
  readonly engine: MlsEngine
  readonly agentId: AgentId
  readonly key: SignatureKeyPair
  readonly identity: Uint8Array
  sign(bytes: Uint8Array): Uint8Array
  readonly journal: Journal
  readonly session: RelaySession
  readonly pins: Pins
  now(): Time
  random(bytes: number): Uint8Array
  /** Between 0 and 1. */
  chance(): number
  /** Does something later; returns what calls it off. */
  later(milliseconds: number, action: () => void): () => void
  emit(event: AgentEvent): void
  /** Tells the relay what is on disk. */
  acknowledge(id: ChannelId, index: number): void
  /** Asks the relay to deliver a channel from this agent's cursor. */
  resume(id: ChannelId): void
  /** What waits on disk for the application, after an index. */
  page(id: ChannelId, after: number, limit: number): readonly InboxRecord[]
  /** A verified message of the SDK itself has come. */
  greeted(id: ChannelId, kind: 'hello' | 'greeting', sender: AgentId, payload: Uint8Array): void
  /** An own commit that brings in one who joins by an invite is adopted. */
  admitted(id: ChannelId, joiner: string): void
  /** So many bytes wait to be processed, more or less than before. */
  queued(bytes: number): void
}
