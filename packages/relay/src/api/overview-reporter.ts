/**
 * Reports to the API what the owner of an account sees in the console: channels and agents, no content. The relay asks
 * every few seconds which accounts are being viewed, and reads and sends nothing for the others.
 */
import { OVERVIEW_LIMITS, type OverviewAgent, type RelayOverview } from '@static/protocol'
import type { OverviewSink, OwnedChannel, Store } from '../ports.ts'
import { Poller } from './poller.ts'

const ASK_MS = 2000
/** Maximum number of reports per round, however many the API asks for. */
const MAX_REPORTS = 32
/** Channels read per call. Their rosters can be large, and all other store operations wait meanwhile. */
const CHANNELS_AT_ONCE = 10

export interface OverviewReporterOptions {
  readonly sink: OverviewSink
  readonly store: Pick<Store, 'run'>
  readonly agentsOf: (account: string, limit: number) => readonly OverviewAgent[]
  /** The relay's id (hexadecimal), its name, and when it started. */
  readonly relay: { readonly id: string; readonly name: string; readonly since: string }
  readonly onError: (error: unknown) => void
}

/** Reports the accounts that people are viewing. */
export function overviewReporter(options: OverviewReporterOptions): Poller<string> {
  const { sink, relay, onError } = options
  return new Poller({
    everyMs: ASK_MS,
    maxTasks: MAX_REPORTS,
    list: () => sink.watched(relay.id),
    carryOut: async (account) => sink.report(account, await overviewOf(account, options)),
    onError,
  })
}

async function overviewOf(
  account: string,
  { store, agentsOf, relay }: OverviewReporterOptions,
): Promise<RelayOverview> {
  const { membersPerChannel: maxMembersPerChannel, members, agents } = OVERVIEW_LIMITS
  // Keyed by id, because a channel created meanwhile shifts the others.
  const channels = new Map<string, OwnedChannel>()
  let total: number = OVERVIEW_LIMITS.channels
  let maxMembers: number = members
  for (let skip = 0; skip < Math.min(total, OVERVIEW_LIMITS.channels); skip += CHANNELS_AT_ONCE) {
    const limits = { skip, maxChannels: CHANNELS_AT_ONCE, maxMembersPerChannel, maxMembers }
    const page = await store.run('owned', { account, ...limits })
    ;({ total } = page)
    for (const channel of page.channels) {
      maxMembers -= channel.behind.length
      channels.set(channel.id, channel)
    }
  }
  return {
    relay_id: relay.id,
    relay: relay.name,
    since: relay.since,
    total_channels: total,
    channels: [...channels.values()].map(({ createdAt, lastAt, waitingBytes, ...channel }) => {
      const [created, last] = [new Date(createdAt).toISOString(), new Date(lastAt).toISOString()]
      return { ...channel, created_at: created, last_at: last, waiting_bytes: waitingBytes }
    }),
    agents: agentsOf(account, agents),
  }
}
