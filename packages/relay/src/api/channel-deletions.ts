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
  /** The ids of deletions that are carried out but not reported yet; bounded by what the API lists. */
  const done = new Set<string>()
  const list = async (): Promise<readonly ChannelDeletion[]> => {
    const listed = await source.deletions(relayId)
    const ids = new Set(listed.map(({ id }) => id))
    for (const id of done) if (!ids.has(id)) done.delete(id)
    return listed
  }
  const carryOut = async (deletion: ChannelDeletion): Promise<void> => {
    const { id, account_id: account, mode, name, channel_id: channel, requested_at: requestedAt } = deletion
    const outcome = await store.run('delete', {
      account: { id: account, mode },
      channel: channel ?? undefined,
      name,
      // Without a valid time, nothing is deleted.
      createdBy: Date.parse(requestedAt) || 0,
    })
    if ('done' in outcome) done.add(id)
    // If this is lost, the next round finds no such channel, but must still report that this relay has deleted it.
    await source.reportDeletion(id, relayId, done.has(id))
    done.delete(id)
  }
  return new Poller({
    everyMs: ASK_MS,
    maxTasks: MAX_DELETIONS,
    list,
    carryOut,
    onError,
  })
}
