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
export async function openMemoryStore(options: MemoryStoreOptions, listener: StoreListener): Promise<Store> {
  const [store] = openMemoryStores(options, [listener])
  return store
}

/** Creates an empty store that several nodes share. Each gets only the events of its own operations. */
export function openMemoryStores(
  { retention }: MemoryStoreOptions,
  listeners: readonly [StoreListener, ...StoreListener[]],
): [Store, ...Store[]] {
  const rows = new MemoryRows()
  const deployment = { relayId: randomBytes(RELAY_ID_BYTES), tokenKey: randomBytes(32), busKey: randomBytes(32) }
  const open = (listener: StoreListener): Store => storeOn(new Ledger(rows, sha256, retention), deployment, listener)
  const [first, ...more] = listeners
  return [open(first), ...more.map(open)]
}

function storeOn(ledger: Ledger, deployment: Store['deployment'], listener: StoreListener): Store {
  const execute = <Name extends StoreOperation>(name: Name, request: StoreRequest<Name>): StoreResult<Name> => {
    const { result, events } = ledger.run(name, request)
    for (const event of events) listener(event)
    return result
  }
  return {
    deployment,
    // Asynchronous, like every other engine: no caller may rely on an answer within the call.
    run: (name, request) => Promise.resolve().then(() => execute(name, request)),
    healthy: () => true,
    durability: () => 'memory',
    close: () => Promise.resolve(),
  }
}

const sha256: Hash = (bytes) => hash('sha256', bytes, 'buffer')
