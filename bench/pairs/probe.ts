/**
 * Imported before a process of the paired bench: answers the question `usage` of its parent. With STATIC_HOPS, a
 * directory, it also stamps the hops of messages, in each thread.
 */
import { isMainThread } from 'node:worker_threads'
import { ownUsage } from './usage.ts'

if (process.env['STATIC_HOPS'] !== undefined) await import('./stamps.ts')
if (isMainThread && process.send) {
  process.on('message', (message) => {
    if (message === 'usage') process.send?.({ usage: ownUsage() })
  })
  // The question alone keeps no server alive.
  process.channel?.unref()
}
