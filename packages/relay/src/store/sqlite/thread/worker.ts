/** The thread that owns the database. */
import { parentPort, workerData } from 'node:worker_threads'
import type { WorkerOptions } from './worker-messages.ts'
import { serveDatabase } from './serve.ts'

if (parentPort) serveDatabase(parentPort, workerData as WorkerOptions)
