/**
 * The store's logic, the same for every engine: slot, index, duplicates, counters, roster, and retention. Operations
 * run synchronously on an engine's rows; if one throws, the engine must roll it back.
 */
import type { Hash } from '@static/protocol'
import type { StoreRequest, StoreResult, Retention, StoreEvent, StoreOperation } from '../../ports.ts'
import { append } from './append.ts'
import { check, create, remove } from './channels.ts'
import { heads, notices, useNonce } from './cluster.ts'
import { commit, leave, welcome } from './commit.ts'
import type { Context } from './context.ts'
import { findInvite, registerInvite, revokeInvite } from './invites.ts'
import { answerJoin, requestJoin, takeJoins } from './joins.ts'
import { read } from './log.ts'
import { owned } from './owned.ts'
import { liftBar, reject } from './reject.ts'
import { resetRoster } from './reset.ts'
import { ack, resume, welcomes } from './resume.ts'
import { sweep } from './retention.ts'
import { allot } from './room.ts'
import type { Rows } from './rows.ts'
import { vouch } from './vouch.ts'

type Operations = {
  readonly [Name in StoreOperation]: (context: Context, request: StoreRequest<Name>) => StoreResult<Name>
}

const OPERATIONS: Operations = {
  allot,
  create,
  delete: remove,
  append,
  commit,
  reject,
  liftBar,
  vouch,
  resetRoster,
  welcome,
  leave,
  check,
  resume,
  welcomes,
  ack,
  read,
  registerInvite,
  revokeInvite,
  invite: findInvite,
  owned,
  requestJoin,
  takeJoins,
  answerJoin,
  useNonce,
  heads,
  notices,
  sweep,
}

/** The outcome of an operation. */
export interface Decision<Name extends StoreOperation> {
  readonly result: StoreResult<Name>
  /** In order. */
  readonly events: readonly StoreEvent[]
}

/** Runs operations one after the other. */
export class Ledger {
  readonly #context: Context
  #events: StoreEvent[] = []

  constructor(rows: Rows, hash: Hash, retention: Retention) {
    this.#context = { rows, hash, retention, emit: (event) => this.#emit(event) }
  }

  /** Runs an operation and applies its changes to the engine's rows. */
  run<Name extends StoreOperation>(name: Name, request: StoreRequest<Name>): Decision<Name> {
    this.#events = []
    const result = OPERATIONS[name](this.#context, request)
    this.#context.rows.settle()
    return { result, events: this.#events }
  }

  #emit(event: StoreEvent): void {
    this.#events.push(event)
    // Other nodes find entries in the log.
    if (event.type !== 'appended') this.#context.rows.transient.addNotice(event)
  }
}
