/**
 * Serves a database to another thread. All calls pending when it becomes free go into one transaction and are answered
 * in one message after the commit: one flush to disk for many callers.
 */
import type { DatabaseSync } from 'node:sqlite'
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { StaticError } from '@static/protocol'
import { batchLength } from '../../batch.ts'
import type { Call } from '../../call.ts'
import { Census } from '../census.ts'
import { Copier } from '../backup/copier.ts'
import { type EngineStep, SqliteEngine } from '../engine.ts'
import { type FromWorker, type ToWorker, type WorkerOptions, packAnswers, unpackCalls } from './worker-messages.ts'
import { openDatabase, readDeployment } from '../schema.ts'

/** Opens the database and answers calls until it is closed; `onStep` is called at each step of the engine. */
export function serveDatabase(port: MessagePort, options: WorkerOptions, onStep?: (step: EngineStep) => void): void {
  const post = (message: FromWorker, transfer: ArrayBuffer[] = []): void => port.postMessage(message, transfer)
  let db: DatabaseSync | undefined
  let engine: SqliteEngine
  try {
    db = openDatabase(options.path)
    engine = new SqliteEngine(db, options.retention, onStep)
  } catch (error) {
    db?.close()
    const { code, message } = StaticError.from(error)
    post({ type: 'unable', code, message })
    port.close()
    return
  }
  const census = new Census(db)
  const copier = new Copier(db, () => serve())
  const queue: Call[] = []
  let closing = false

  const take = (message: ToWorker): void => {
    if (message.type === 'calls') for (const call of unpackCalls(message.parcel)) queue.push(call)
    else if (message.type === 'backup') void copy(message.path)
    else closing = true
  }
  const copy = async (path: string): Promise<void> => post({ type: 'copied', path, failed: await copier.copy(path) })
  const end = async (): Promise<void> => {
    await copier.idle
    engine.close()
    db.close()
    port.close()
  }
  const serve = (): void => {
    while (!copier.holds) {
      // Calls that arrived while the last batch was written.
      for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port))
        take(next.message as ToWorker)
      if (queue.length === 0) break
      const calls = queue.splice(0, batchLength(queue))
      const before = engine.transactions
      const parcel = packAnswers(engine.run(calls))
      const { healthy, transactions } = engine
      const commitMs = engine.takeCommitMs()
      post({ type: 'answers', parcel, healthy, transactions: transactions - before, commitMs }, [parcel.bytes])
      for (const { name, request } of calls) {
        if (name !== 'sweep') continue
        engine.compact(request.now)
        const counted = healthy ? census.step() : undefined
        if (counted) post({ type: 'census', census: counted })
      }
    }
    if (!closing || copier.holds) return
    closing = false
    void end()
  }
  port.on('message', (message: ToWorker) => {
    take(message)
    serve()
  })
  post({ type: 'ready', deployment: readDeployment(db) })
}
