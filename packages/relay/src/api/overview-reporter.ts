/**
 * Reports to the API what the owner of an account sees in the console: channels and agents, no content. The relay asks
 * every few seconds which accounts are being viewed, and reads and sends nothing for the others.
 */
import { OVERVIEW_LIMITS, type OverviewAgent, type RelayOverview, StaticError } from '@static/protocol'
import type { OverviewSink, OwnedChannel, Store } from '../ports.ts'

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

/** Reports the accounts that the API asks for, one after the other. */
export class OverviewReporter {
  readonly #options: OverviewReporterOptions
  #timer: NodeJS.Timeout | undefined
  #asking = false

  constructor(options: OverviewReporterOptions) {
    this.#options = options
  }

  start(): void {
    this.#timer = setInterval(() => void this.round(), ASK_MS)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Asks once which accounts are viewed, and reports them. */
  async round(): Promise<void> {
    if (this.#asking) return
    this.#asking = true
    const { sink, relay, onError } = this.#options
    const failures: unknown[] = []
    try {
      const accounts = await sink.watched(relay.id)
      for (const account of accounts.slice(0, MAX_REPORTS)) {
        // A failed report must not block those after it.
        await this.#report(account).catch((error: unknown) => failures.push(error))
      }
    } catch (error) {
      failures.push(error)
    }
    // An API or store that is down is reported elsewhere, and the next round retries. Report a bug once per round.
    const bug = failures.find((error) => StaticError.from(error).code === 'internal_error')
    if (bug !== undefined) onError(bug)
    this.#asking = false
  }

  async #report(account: string): Promise<void> {
    await this.#options.sink.report(account, await this.#read(account))
  }

  async #read(account: string): Promise<RelayOverview> {
    const { store, agentsOf, relay } = this.#options
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
      channels: [...channels.values()].map(({ waitingBytes, ...channel }) => {
        return { ...channel, waiting_bytes: waitingBytes }
      }),
      agents: agentsOf(account, agents),
    }
  }
}
