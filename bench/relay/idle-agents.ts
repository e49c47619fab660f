/** Agents that open sessions and say nothing, in a process of their own. They report every session that opens. */
import type { TrafficProfileName } from '@static/protocol'
import { openGuest } from '@static/testkit/agent/guest'

/** What the process is started with. */
export interface IdleAgents {
  readonly endpoint: string
  readonly ca: string
  readonly count: number
  readonly profile: TrafficProfileName
}

/** How many are there at first, and then the time of each that is back, in milliseconds since 1970. */
export type IdleReport = { readonly ready: true } | { readonly openedAt: number }

const { endpoint, ca, count, profile } = JSON.parse(process.argv[2] ?? '') as IdleAgents
const say = (report: IdleReport): void => void process.send?.(report)
let isReady = false
const opened = (): void => {
  if (isReady) say({ openedAt: performance.timeOrigin + performance.now() })
}
for (let at = 0; at < count; at++) await openGuest({ endpoint, ca, traffic: profile, opened })
isReady = true
process.on('disconnect', () => process.exit(0))
say({ ready: true })
