/** A well-behaved client that goes on asking while others misbehave. */
import assert from 'node:assert/strict'
import { setTimeout as wait } from 'node:timers/promises'
import { type Call, type Client, makeClient } from '@static/testkit/server/client'

const PAUSE_MS = 10
/** Two shared cores may be busy with other tests; a server that hangs takes longer than this. */
const SLOWEST_MS = 10_000

/** The bystander. */
export interface Bystander {
  /** Stops, and insists that every answer was 200 and came in time. */
  stop(): Promise<number>
}

/** Starts asking, one request at a time. */
export function startBystander(url: string, ca: string, call: Call): Bystander {
  const client: Client = makeClient(url, ca, { connections: 1 })
  const ending = new AbortController()
  const answers: { status: number; ms: number }[] = []
  const running = (async () => {
    while (!ending.signal.aborted) {
      const started = performance.now()
      const { status } = await client.call(call)
      answers.push({ status, ms: performance.now() - started })
      await wait(PAUSE_MS)
    }
  })()
  // Reported by stop(); until then it must not count as unhandled.
  running.catch(() => {})
  return {
    async stop() {
      ending.abort()
      await running
      client.close()
      const disturbed = answers.filter(({ status, ms }) => status !== 200 || ms > SLOWEST_MS)
      assert.deepEqual(disturbed, [], 'A parallel client was disturbed.')
      assert.ok(answers.length > 0, 'The parallel client never got an answer.')
      return answers.length
    },
  }
}
