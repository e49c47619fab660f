/** The rows that an engine's sweep has to process. */
import type { AgentId, ChannelId, Time } from '../../../ports.ts'

/** A Welcome that has been pending for too long. */
export interface OldWelcome {
  readonly channel: ChannelId
  readonly agent: AgentId
}

/** Finds the rows that are due. */
export interface DueRows {
  /** At most `limit` channels with `due` at or before that time. The caller must read them one by one, to the end. */
  channels(now: Time, limit: number): Iterable<ChannelId>
  /** At most `limit` Welcomes from before `since`. */
  welcomes(since: Time, limit: number): readonly OldWelcome[]
}
