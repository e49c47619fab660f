/** A well-behaved client that keeps sending requests while others misbehave. */
import assert from 'node:assert/strict'
import { setTimeout as wait } from 'node:timers/promises'
import { type Call, type Client, makeClient } from '@static/testkit/server/client'

const PAUSE_MS = 10
/** Generous, because two shared cores may be busy with other tests; a hanging server takes longer. */
const SLOWEST_MS = 10_000

/** The bystander. */
export interface Bystander {
  /** Stops, and checks that every response was 200 and arrived in time. */
  stop(): Promise<number>
}

/** Starts sending requests, one at a time. */
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
  // stop() reports the error; until then it must not count as an unhandled rejection.
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
