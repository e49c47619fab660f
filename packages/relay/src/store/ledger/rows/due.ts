/** What the sweep of an engine works on. */
import type { AgentId, ChannelId, Time } from '../../../ports.ts'

/** A Welcome that has been pending for too long. */
export interface OldWelcome {
  readonly channel: ChannelId
  readonly agent: AgentId
}

/** What is due. */
export interface DueRows {
  /** At most `limit` channels with `due` at or before that time. Must be read to the end, one after the other. */
  channels(now: Time, limit: number): Iterable<ChannelId>
  /** At most `limit` Welcomes from before `since`. */
  welcomes(since: Time, limit: number): readonly OldWelcome[]
}
