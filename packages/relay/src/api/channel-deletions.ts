/**
 * Deletes channels for people who have no agent in them: the owner of the account, in the console, or the operator. The
 * API queues their requests, and the relay asks for them every few seconds. The store deletes only what belongs to the
 * account of a request, and its event tells the members, as after a deletion by an agent.
 */
import type { ChannelDeletion } from '@static/protocol'
import type { DeletionSource, Store } from '../ports.ts'
import { Poller } from './poller.ts'

const ASK_MS = 4000
/** Maximum number of deletions per round, however many the API lists. */
const MAX_DELETIONS = 64

export interface ChannelDeletionsOptions {
  readonly source: DeletionSource
  readonly store: Pick<Store, 'run'>
  /** The relay's id, in hexadecimal. */
  readonly relayId: string
  readonly onError: (error: unknown) => void
}

/** Carries out the deletions that the API has queued. */
export function channelDeletions({
  source,
  store,
  relayId,
  onError,
}: ChannelDeletionsOptions): Poller<ChannelDeletion> {
  const carryOut = async (deletion: ChannelDeletion): Promise<void> => {
    const { id, account_id: account, mode, name, channel_id: channel, requested_at: requestedAt } = deletion
    const outcome = await store.run('delete', {
      account: { id: account, mode },
      channel: channel ?? undefined,
      name,
      // Without a valid time, nothing is deleted.
      createdBy: Date.parse(requestedAt) || 0,
    })
    // If this is lost, the next round finds no such channel, and the request expires.
    await source.reportDeletion(id, relayId, 'done' in outcome)
  }
  return new Poller({
    everyMs: ASK_MS,
    maxTasks: MAX_DELETIONS,
    list: () => source.deletions(relayId),
    carryOut,
    onError,
  })
}
