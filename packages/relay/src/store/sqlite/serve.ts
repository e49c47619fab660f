/**
 * Serves a database to another thread. All calls pending when it becomes free go into one transaction and are answered
 * in one message after the commit: one flush to disk for many callers.
 */
import { closeSync, openSync } from 'node:fs'
import { backup, type DatabaseSync } from 'node:sqlite'
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { StaticError } from '@static/protocol'
import { type EngineStep, SqliteEngine } from './engine.ts'
import {
  type Call,
  type FromWorker,
  type ToWorker,
  type WorkerOptions,
  packAnswers,
  unpackCalls,
} from './worker-messages.ts'
import { openDatabase, readDeployment } from './schema.ts'

/** Limits of one transaction. */
const BATCH_CALLS = 256
const BATCH_BYTES = 4_194_304
/** Pages that a backup copies at a time; calls are served in between. */
const BACKUP_PAGES = 256

/** Opens the database and answers calls until it is closed; `onStep` is called at each step of the engine. */
export function serveDatabase(port: MessagePort, options: WorkerOptions, onStep?: (step: EngineStep) => void): void {
  const post = (message: FromWorker, transfer: ArrayBuffer[] = []): void => port.postMessage(message, transfer)
  let db: DatabaseSync
  try {
    db = openDatabase(options.path)
  } catch (error) {
    const { code, message } = StaticError.from(error)
    post({ type: 'unable', code, message })
    port.close()
    return
  }
  const engine = new SqliteEngine(db, options.retention, onStep)
  const queue: Call[] = []
  let copying = Promise.resolve()
  let closing = false

  const copy = async (path: string): Promise<void> => {
    let failed: string | undefined
    try {
      // SQLite would create it with the umask.
      closeSync(openSync(path, 'ax', 0o600))
      // Changes by this connection reach what is copied already, so the copy is complete however much is written.
      await backup(db, path, { rate: BACKUP_PAGES })
    } catch (error) {
      failed = String(error)
    }
    post({ type: 'copied', path, failed })
  }
  const take = (message: ToWorker): void => {
    if (message.type === 'calls') queue.push(...unpackCalls(message.parcel))
    else if (message.type === 'backup') copying = copying.then(() => copy(message.path))
    else closing = true
  }
  const end = async (): Promise<void> => {
    await copying
    db.close()
    port.close()
  }
  const work = (first: ToWorker): void => {
    take(first)
    while (true) {
      // Calls that arrived while the last batch was written.
      for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port))
        take(next.message as ToWorker)
      if (queue.length === 0) break
      const calls = queue.splice(0, batchLength(queue))
      const before = engine.transactions
      const parcel = packAnswers(engine.run(calls))
      const { healthy, transactions } = engine
      post({ type: 'answers', parcel, healthy, transactions: transactions - before }, [parcel.bytes])
      for (const { name, request } of calls) if (name === 'sweep') engine.compact(request.now)
    }
    if (closing) void end()
  }
  port.on('message', work)
  post({ type: 'ready', deployment: readDeployment(db) })
}

/** How many of the calls make one batch: at least one. */
function batchLength(queue: readonly Call[]): number {
  let bytes = 0
  let length = 0
  for (const call of queue.slice(0, BATCH_CALLS)) {
    bytes += weigh(call)
    if (length > 0 && bytes > BATCH_BYTES) break
    length += 1
  }
  return length
}

/** The bytes that a call writes or asks for. */
function weigh({ name, request }: Call): number {
  if (name === 'append') return request.ciphertext.length
  if (name === 'read' || name === 'welcomes') return request.maxBytes
  if (name !== 'commit') return 0
  const { commit, groupInfo, welcomes } = request
  return welcomes.reduce((sum, { welcome }) => sum + welcome.length, commit.length + groupInfo.length)
}
