/**
 * A plain HTTPS server, in a process of its own: PUT writes the body to a file, as durably as the relay, GET gives it
 * back. It checks nothing.
 */
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { serve } from '../agent/serve.ts'
import { type BareOptions, STORED_BYTES } from './transfer.ts'

const READ_BYTES = 262_144
const BURST_MS = 250

const { cert, key, port, directory, bytesPerSecond } = JSON.parse(process.argv[2] ?? '{}') as BareOptions
let next = 0

/** Waits until so many bytes may have passed. */
async function pace(bytes: number): Promise<void> {
  const now = performance.now()
  next = Math.max(next, now - BURST_MS) + (bytes * 1000) / bytesPerSecond
  if (next > now) await wait(next - now)
}

async function store(request: IncomingMessage, path: string): Promise<void> {
  const file = await open(`${path}.tmp`, 'w', 0o600)
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      await pace(chunk.length)
      await file.write(chunk)
    }
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(`${path}.tmp`, path)
  const parent = await open(directory)
  await parent.sync()
  await parent.close()
}

async function give(response: ServerResponse, path: string): Promise<void> {
  response.writeHead(200, { 'content-length': STORED_BYTES })
  for await (const chunk of createReadStream(path, { highWaterMark: READ_BYTES }) as AsyncIterable<Buffer>) {
    await pace(chunk.length)
    if (!response.write(chunk)) await once(response, 'drain')
  }
  response.end()
}

const server = createServer({ cert, key, minVersion: 'TLSv1.3' }, (request, response) => {
  const path = join(directory, `${Number(request.url?.slice(1))}`)
  const done =
    request.method === 'PUT' ? store(request, path).then(() => response.writeHead(204).end()) : give(response, path)
  done.catch(() => response.destroy())
})
server.listen(port, '127.0.0.1')
await once(server, 'listening')
serve(() => Promise.resolve({ type: 'done', cpu: 0 }))
