/** What an account keeps at the relay, for its operator. */
import type { Store } from '../ports.ts'

export interface AccountRoom {
  readonly channels: number
  /** Of its channels' logs, on disk. */
  readonly bytes: number
}

/** Channels read per call: all other store operations wait meanwhile. */
const CHANNELS_AT_ONCE = 10

/** Counts channel by channel, so a channel created or deleted meanwhile may be missed or counted twice. */
export async function accountRoom(store: Pick<Store, 'run'>, account: string): Promise<AccountRoom> {
  let channels = 0
  let bytes = 0
  for (let skip = 0; skip === 0 || skip < channels; skip += CHANNELS_AT_ONCE) {
    // Without members, whatever a channel holds counts as waiting.
    const limits = { skip, maxChannels: CHANNELS_AT_ONCE, maxMembersPerChannel: 0, maxMembers: 0 }
    const page = await store.run('owned', { account, ...limits })
    channels = page.total
    for (const { waitingBytes } of page.channels) bytes += waitingBytes
  }
  return { channels, bytes }
}
