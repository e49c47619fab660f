/** The channels and agents of the account, as its relays report them while a view that shows them is open. */
import type { Account, Overview, OverviewAgent, OverviewChannel } from '@static/protocol'
import { useEffect, useState } from 'preact/hooks'
import { useLoaded, useSession } from './session.ts'

/** How often the page polls: more often until a relay has reported. */
const FIRST_MS = 1000
const LATER_MS = 5000
/** After this time without a report, the page suggests possible reasons. */
const PATIENCE_MS = 15_000

/** The last answer for each signed-in account, so that the page of a channel shows at once what the list has shown. */
const latest = new WeakMap<Account, Overview>()

/** One relay's report. */
export type Report = Overview['relays'][number]

/** The reports, while they are polled. */
export interface WatchedOverview {
  /** Empty until a relay has reported. */
  readonly relays: readonly Report[]
  readonly error: unknown
  readonly reload: () => Promise<void>
  /** No relay has reported for a while. */
  readonly isLate: boolean
}

/** Asks for the overview as long as a view uses it. */
export function useOverview(): WatchedOverview {
  const { account } = useSession()
  const { data, error, reload } = useLoaded<Overview>('/v1/channels')
  if (data) latest.set(account, data)
  const { relays } = latest.get(account) ?? { relays: [] }
  const has = relays.length > 0
  const [isLate, setLate] = useState(false)
  useEffect(() => {
    const look = (): void => void (document.visibilityState === 'visible' && reload())
    const timer = setInterval(look, has ? LATER_MS : FIRST_MS)
    return () => clearInterval(timer)
  }, [has, reload])
  useEffect(() => {
    setLate(false)
    const timer = setTimeout(() => setLate(!has), PATIENCE_MS)
    return () => clearTimeout(timer)
  }, [has])
  return { relays, error, reload, isLate }
}

/** The agents of the account, by id. Agents of other accounts are not in a report. */
export type KnownAgents = ReadonlyMap<string, OverviewAgent>

export function agentsOf({ agents }: Report): KnownAgents {
  return new Map(agents.map((agent) => [agent.id, agent]))
}

/** The name of an agent; the start of its id if it has none, or belongs to another account. */
export function labelOf(id: string, agents: KnownAgents): string {
  return agents.get(id)?.name ?? shortId(id)
}

/** Enough digits to tell agents apart; the full id is too long for a table. */
export function shortId(id: string): string {
  return `${id.slice(0, 12)}…`
}

/** The number of members that have entries to fetch, as far as they are reported. */
export function behindIn({ behind }: OverviewChannel): number {
  return behind.filter(({ waiting }) => waiting > 0).length
}
