/**
 * The store's logic, the same for every engine: slot, index, duplicates, counters, roster, and retention. Operations
 * run synchronously on an engine's rows; if one throws, the engine must roll it back.
 */
import type { Hash } from '@static/protocol'
import type { StoreRequest, StoreResult, Retention, StoreEvent, StoreOperation } from '../../ports.ts'
import { append } from './log/append.ts'
import { check, create, remove } from './channels/channels.ts'
import { heads, notices, useNonce } from './cluster.ts'
import { commit, leave, welcome } from './commits/commit.ts'
import type { Context } from './context.ts'
import { beginFile, dropFile, dueFiles, fileStatus, forgetFiles, knownFiles } from './files/files.ts'
import { admitPart, findPart, recordPart } from './files/parts.ts'
import { findInvite, registerInvite, revokeInvite } from './invites/invites.ts'
import { answerJoin, requestJoin, takeJoins } from './invites/joins.ts'
import { read } from './log/log.ts'
import { owned } from './channels/owned.ts'
import { liftBar, reject } from './commits/reject.ts'
import { resetRoster } from './commits/reset.ts'
import { ack, resume, welcomes } from './log/resume.ts'
import { sweep } from './room/retention.ts'
import { allot } from './room/room.ts'
import type { Rows } from './rows/rows.ts'
import { vouch } from './members/vouch.ts'

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
  beginFile,
  fileStatus,
  admitPart,
  recordPart,
  findPart,
  dropFile,
  dueFiles,
  forgetFiles,
  knownFiles,
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
