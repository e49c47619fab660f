/** Bugs that an agent finds in itself: they fail one join, or one call, alone, so that a test may not notice them. */
import assert from 'node:assert/strict'
import type { AgentEvent } from '../../src/agent/events.ts'
import type { StaticClient } from '../../src/public/client.ts'

/** The bug that an event reports, if it does. */
export function bugIn(event: AgentEvent): string | undefined {
  const error = 'error' in event ? event.error : undefined
  return error?.code === 'internal_error' && error.message.includes('report this bug') ? error.message : undefined
}

/** The bugs that the agents of a test have found. */
export class FoundBugs {
  readonly #found: string[] = []

  watch(client: StaticClient): void {
    void this.#listen(client)
  }

  /** Fails if there is one. Called when the agents are closed. */
  check(): void {
    assert.deepEqual(this.#found, [])
  }

  async #listen(client: StaticClient): Promise<void> {
    for await (const event of client.events()) {
      const bug = bugIn(event)
      if (bug !== undefined) this.#found.push(bug)
    }
  }
}
