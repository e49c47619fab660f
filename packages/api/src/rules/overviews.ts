/**
 * The relays' reports on an account's channels and agents, for the console (SPEC.md, "Overview"). In memory only. A
 * relay is asked only about accounts whose owner is looking, and only reports about those are kept, so that a hostile
 * relay cannot fill the memory.
 */
import { type Overview, OVERVIEW_LIMITS, type OverviewAgent, type RelayOverview } from '@static/protocol'
import { isoTime } from './calendar.ts'
import { type Caller, modesOf } from './caller.ts'
import type { Clock } from '../ports.ts'

/** An account is watched this long after its owner last looked. */
const WATCH_MS = 30_000
/** A report that is not refreshed in this time is dropped. */
const KEEP_MS = 30_000
/** The minimum time between reports of a relay on one account. */
const REFRESH_MS = 4000
/** Beyond this many watched accounts, or bytes of reports, the least recently viewed are forgotten. */
const MAX_WATCHED = 1000
const MAX_BYTES = 32 * 1024 * 1024
/** The maximum number of relay nodes whose reports on one account are kept. */
const MAX_NODES = 32
/** The maximum number of accounts that a relay is asked about at once. */
const MAX_ASKED = 32

interface Report {
  readonly overview: RelayOverview
  readonly at: number
  readonly bytes: number
}

interface Watch {
  lookedAt: number
  /** By relay and node. */
  readonly reports: Map<string, Report>
}

export class Overviews {
  readonly #now: Clock
  /** Ordered by last look. */
  readonly #watched = new Map<string, Watch>()
  #bytes = 0

  constructor(now: Clock) {
    this.#now = now
  }

  /** The known overview of the caller's account. From now on, its relays report until no one is looking. */
  look(caller: Caller): Overview {
    const now = this.#now()
    this.#prune(now)
    const watch: Watch = this.#watched.get(caller.accountId) ?? { lookedAt: now, reports: new Map() }
    watch.lookedAt = now
    this.#watched.delete(caller.accountId)
    this.#watched.set(caller.accountId, watch)
    this.#evict()
    const modes = modesOf(caller)
    const relays = merged([...watch.reports.values()]).map(({ overview, at }) => ({
      ...overview,
      reported_at: isoTime(at),
      channels: overview.channels.filter(({ mode }) => modes.includes(mode)),
      agents: overview.agents.filter(({ mode }) => modes.includes(mode)),
    }))
    return { relays: relays.sort((one, other) => (one.relay_id < other.relay_id ? -1 : 1)) }
  }

  /** The watched accounts that a relay node should report now, those with the oldest reports first. */
  watched(relayId: string, node = ''): string[] {
    const now = this.#now()
    this.#prune(now)
    const reportedAt = ({ reports }: Watch): number => reports.get(nameOf(relayId, node))?.at ?? -Infinity
    return [...this.#watched]
      .filter(([, watch]) => now - reportedAt(watch) >= REFRESH_MS)
      .sort(([, one], [, other]) => reportedAt(one) - reportedAt(other) || one.lookedAt - other.lookedAt)
      .slice(0, MAX_ASKED)
      .map(([account]) => account)
  }

  /** Keeps a report if someone is looking and it is not too early. Returns whether it did. */
  report(accountId: string, overview: RelayOverview, node = ''): boolean {
    const now = this.#now()
    this.#prune(now)
    const watch = this.#watched.get(accountId)
    if (!watch) return false
    const { reports } = watch
    const name = nameOf(overview.relay_id, node)
    const earlier = reports.get(name)
    if (earlier ? now - earlier.at < REFRESH_MS : reports.size >= MAX_NODES) return false
    const bytes = JSON.stringify(overview).length
    this.#bytes += bytes - (earlier?.bytes ?? 0)
    reports.set(name, { overview, at: now, bytes })
    this.#evict()
    return true
  }

  /** For tests and metrics. */
  get size(): { readonly accounts: number; readonly bytes: number } {
    return { accounts: this.#watched.size, bytes: this.#bytes }
  }

  #prune(now: number): void {
    for (const [account, watch] of this.#watched) {
      for (const [relay, { at, bytes }] of watch.reports) {
        if (now - at <= KEEP_MS) continue
        watch.reports.delete(relay)
        this.#bytes -= bytes
      }
      if (now - watch.lookedAt > WATCH_MS) this.#forget(account, watch)
    }
  }

  #evict(): void {
    for (const [account, watch] of this.#watched) {
      if (this.#watched.size <= MAX_WATCHED && this.#bytes <= MAX_BYTES) return
      this.#forget(account, watch)
    }
  }

  #forget(account: string, watch: Watch): void {
    for (const { bytes } of watch.reports.values()) this.#bytes -= bytes
    this.#watched.delete(account)
  }
}

function nameOf(relayId: string, node: string): string {
  return `${relayId} ${node}`
}

/** One report for each relay: the newest from its nodes, with the agents of all. Nodes share the channels. */
function merged(reports: readonly Report[]): Pick<Report, 'overview' | 'at'>[] {
  const byRelay = new Map<string, Report[]>()
  for (const report of reports.toSorted((one, other) => other.at - one.at)) {
    const { relay_id: id } = report.overview
    byRelay.set(id, [...(byRelay.get(id) ?? []), report])
  }
  return [...byRelay.values()].flatMap((ofRelay) => {
    const [newest] = ofRelay
    if (!newest) return []
    const { overview, at } = newest
    return [{ overview: { ...overview, agents: agentsOf(ofRelay.map((report) => report.overview)) }, at }]
  })
}

/** The agents of all nodes, each at the node that saw it last: the node that an agent has left still reports it. */
function agentsOf(overviews: readonly RelayOverview[]): OverviewAgent[] {
  const agents = new Map<string, OverviewAgent>()
  for (const agent of overviews.flatMap((overview) => overview.agents)) {
    const known = agents.get(agent.id)
    if (!known || isNewer(agent, known)) agents.set(agent.id, agent)
  }
  return [...agents.values()].slice(0, OVERVIEW_LIMITS.agents)
}

function isNewer(agent: OverviewAgent, than: OverviewAgent): boolean {
  if (agent.connected !== than.connected) return agent.connected
  return agent.last_seen_at > than.last_seen_at
}
