/** An in-memory relay store: the ledger of the real engines, on rows that are not persisted. */
import { hash, randomBytes } from 'node:crypto'
import { type Hash, RELAY_ID_BYTES } from '@static/protocol'
import {
  Ledger,
  type Retention,
  type Store,
  type StoreListener,
  type StoreOperation,
  type StoreRequest,
  type StoreResult,
} from '@static/relay/internal'
import { MemoryRows } from './relay-memory-rows.ts'

/** Options of an in-memory store. */
export interface MemoryStoreOptions {
  readonly retention: Retention
}

/** Creates an empty store. */
export async function openMemoryStore({ retention }: MemoryStoreOptions, listener: StoreListener): Promise<Store> {
  const ledger = new Ledger(new MemoryRows(), sha256, retention)
  const execute = <Name extends StoreOperation>(name: Name, request: StoreRequest<Name>): StoreResult<Name> => {
    const { result, events } = ledger.run(name, request)
    for (const event of events) listener(event)
    return result
  }
  return {
    deployment: { relayId: randomBytes(RELAY_ID_BYTES), tokenKey: randomBytes(32), busKey: randomBytes(32) },
    // Asynchronous, like every other engine: no caller may rely on an answer within the call.
    run: (name, request) => Promise.resolve().then(() => execute(name, request)),
    healthy: () => true,
    durability: () => 'memory',
    close: () => Promise.resolve(),
  }
}

const sha256: Hash = (bytes) => hash('sha256', bytes, 'buffer')
