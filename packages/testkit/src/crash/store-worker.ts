/** The worker thread of a store that dies at a step: the relay's worker, with a hook in the engine. */
import { parentPort, workerData } from 'node:worker_threads'
import { serveDatabase, type WorkerOptions } from '@static/relay/internal'
import { type FailAt, killAt } from './store-steps.ts'

if (parentPort) {
  const { failAt, ...options } = workerData as WorkerOptions & { readonly failAt: FailAt }
  serveDatabase(parentPort, options, killAt(failAt))
}
