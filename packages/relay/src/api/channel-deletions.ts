/**
 * Deletes channels for people who have no agent in them: the owner of the account, in the console, or the operator. The
 * API queues their requests, and the relay asks for them every few seconds. The store deletes only what belongs to the
 * account of a request, and its event tells the members, as after a deletion by an agent.
 */
import { StaticError } from '@static/protocol'
import type { DeletionSource, Store } from '../ports.ts'

const ASK_MS = 4000

export interface ChannelDeletionsOptions {
  readonly source: DeletionSource
  readonly store: Pick<Store, 'run'>
  /** The relay's id, in hexadecimal. */
  readonly relayId: string
  readonly onError: (error: unknown) => void
}

/** Carries out what the API has queued, one after the other. */
export class ChannelDeletions {
  readonly #options: ChannelDeletionsOptions
  #timer: NodeJS.Timeout | undefined
  #asking = false

  constructor(options: ChannelDeletionsOptions) {
    this.#options = options
  }

  start(): void {
    this.#timer = setInterval(() => void this.round(), ASK_MS)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Asks once, and deletes what the API names. */
  async round(): Promise<void> {
    if (this.#asking) return
    this.#asking = true
    const { source, store, relayId, onError } = this.#options
    try {
      for (const { id, account_id: account, mode, name, channel_id: channel } of await source.deletions(relayId)) {
        const request = { account: { id: account, mode }, channel: channel ?? undefined, name }
        const outcome = await store.run('delete', request)
        // If this is lost, the next round finds no such channel, and the request expires.
        await source.reportDeletion(id, relayId, 'done' in outcome)
      }
    } catch (error) {
      // An API or store that is down is reported elsewhere, and the next round retries.
      if (StaticError.from(error).code === 'internal_error') onError(error)
    }
    this.#asking = false
  }
}
