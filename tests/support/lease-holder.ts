/**
 * Simulates the quota handling of a relay node in its own process: it leases, accepts messages while its lease is
 * valid, settles from time to time, and leases again. One byte on stdout is one accepted message, written before
 * anything else happens, so that a kill loses none from the count.
 */
import { writeSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import type { Lease } from '@static/protocol'
import { makeClient } from '@static/testkit/server/client'

/** Settings from the parent. */
export interface HolderTask {
  readonly url: string
  readonly ca: string
  readonly credential: string
  readonly account: string
  /** How long a lease is valid. */
  readonly leaseMs: number
  /** Sleeps past the end of its first lease after half of it, and settles too late. */
  readonly dozes: boolean
}

const BATCH = 10
const PAUSE_MS = 2
const RETRY_MS = 50

const task = JSON.parse(process.argv[2] ?? '{}') as HolderTask
const client = makeClient(task.url, task.ca, { connections: 1 })
let dozing = task.dozes
for (let lease = await take(); lease !== undefined; lease = await take()) {
  await spend(lease.id, lease.granted, lease.validUntil)
}
client.close()

/** Leases a chunk; undefined if nothing is left and no other holder could return any. */
async function take(): Promise<{ id: string; granted: number; validUntil: number } | undefined> {
  for (;;) {
    // Measured on our own clock from before the request: never longer than on the server.
    const validUntil = performance.now() + task.leaseMs
    const body = { account_id: task.account, mode: 'live' }
    const { id, granted, outstanding } = await post<Lease>('/internal/v1/quota/leases', body)
    if (id !== null) return { id, granted, validUntil }
    if (outstanding === 0) return undefined
    await wait(RETRY_MS)
  }
}

async function spend(id: string, granted: number, firstUntil: number): Promise<void> {
  let validUntil = firstUntil
  let spent = 0
  while (spent < granted) {
    if (dozing && spent >= granted / 2) {
      dozing = false
      await wait(task.leaseMs * 2)
    }
    for (let batch = 0; batch < BATCH && spent < granted && performance.now() < validUntil; batch++) {
      writeSync(1, '.')
      spent++
    }
    await wait(PAUSE_MS)
    if (performance.now() >= validUntil) break
    if (spent < granted && spent % (BATCH * 3) === 0) {
      const renewedAt = performance.now()
      await settle(id, spent, false)
      validUntil = renewedAt + task.leaseMs
    }
  }
  await settle(id, spent, true)
}

async function settle(id: string, spent: number, final: boolean): Promise<void> {
  await post(`/internal/v1/quota/leases/${id}/settle`, { spent, final })
}

function post<T>(path: string, body: unknown): Promise<T> {
  return client.json<T>(200, { method: 'POST', path, key: task.credential, body })
}
