/** An in-memory relay store: the ledger of the real engines, on rows that are not persisted. */
import { hash, randomBytes } from 'node:crypto'
import { type Hash, RELAY_ID_BYTES } from '@static/protocol'
import {
  Ledger,
  type Retention,
  type Store,
  type StoreEvent,
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

/** The ledger of an in-memory store, for callers that decide when it answers and where its events go. */
export interface MemoryLedger {
  readonly deployment: Store['deployment']
  run<Name extends StoreOperation>(
    name: Name,
    request: StoreRequest<Name>,
  ): { readonly result: StoreResult<Name>; readonly events: readonly StoreEvent[] }
}

/** Creates an empty ledger. `random` makes the secrets of its deployment. */
export function openMemoryLedger(
  { retention }: MemoryStoreOptions,
  random: (length: number) => Uint8Array = randomBytes,
): MemoryLedger {
  const ledger = new Ledger(new MemoryRows(), sha256, retention)
  const deployment = { relayId: random(RELAY_ID_BYTES), tokenKey: random(32), busKey: random(32) }
  return { deployment, run: (name, request) => ledger.run(name, request) }
}

/** Creates an empty store that several nodes share. Each gets only the events of its own operations. */
export function openMemoryStores(
  options: MemoryStoreOptions,
  listeners: readonly [StoreListener, ...StoreListener[]],
): [Store, ...Store[]] {
  const ledger = openMemoryLedger(options)
  const open = (listener: StoreListener): Store => storeOn(ledger, listener)
  const [first, ...more] = listeners
  return [open(first), ...more.map(open)]
}

function storeOn(ledger: MemoryLedger, listener: StoreListener): Store {
  const execute = <Name extends StoreOperation>(name: Name, request: StoreRequest<Name>): StoreResult<Name> => {
    const { result, events } = ledger.run(name, request)
    for (const event of events) listener(event)
    return result
  }
  return {
    deployment: ledger.deployment,
    // Asynchronous, like every other engine: no caller may rely on an answer within the call.
    run: (name, request) => Promise.resolve().then(() => execute(name, request)),
    healthy: () => true,
    durability: () => 'memory',
    close: () => Promise.resolve(),
  }
}

const sha256: Hash = (bytes) => hash('sha256', bytes, 'buffer')
