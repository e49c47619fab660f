/** Agents that open sessions and say nothing, in a process of their own. They report every session that opens. */
import { StaticError, type TrafficProfileName } from '@static/protocol'
import { openGuest } from '@static/testkit/agent/guest'

/** Start options of the process. */
export interface IdleAgents {
  readonly endpoint: string
  readonly ca: string
  readonly count: number
  readonly profile: TrafficProfileName
}

/** First that all are connected, then the time of each reconnection, in milliseconds since 1970. */
export type IdleReport = { readonly ready: true } | { readonly openedAt: number }

const MOST_ATTEMPTS = 5

const { endpoint, ca, count, profile } = JSON.parse(process.argv[2] ?? '') as IdleAgents
const say = (report: IdleReport): void => void process.send?.(report)
let isReady = false
const opened = (): void => {
  if (isReady) say({ openedAt: performance.timeOrigin + performance.now() })
}
for (let at = 0; at < count; at++) await openFirst()
isReady = true
process.on('disconnect', () => process.exit(0))
say({ ready: true })

/**
 * Opens one more session. An agent gives up its first one after two dials, so that a wrong address is reported soon; on
 * a machine that is busy starting processes, two can time out although nothing is wrong. The start is not measured.
 */
async function openFirst(): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await openGuest({ endpoint, ca, traffic: profile, opened })
      return
    } catch (error) {
      if (attempt === MOST_ATTEMPTS || !(error instanceof StaticError) || error.code !== 'connection_error') throw error
    }
  }
}
