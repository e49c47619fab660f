/** Operations as engines queue, batch and answer them. */
import type { StoreOperation, StoreRequest } from '../ports.ts'
import type { Decision } from './ledger/ledger.ts'

/** A requested operation. */
export type Call = {
  [Name in StoreOperation]: { readonly name: Name; readonly request: StoreRequest<Name> }
}[StoreOperation]

/** The outcome of an operation: its result, or why the engine failed. */
export type Answer = Decision<StoreOperation> | { readonly failed: string }
