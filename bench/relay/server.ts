/** The relay under test, in a process of its own: durable on SQLite, with unlimited quota. */
import { startRelay } from '@static/relay'
import { FakeApi } from '@static/testkit/relay/api'
import type { Question, Use } from './messages.ts'

const {
  cert,
  key,
  database,
  endpoints = 1,
  quicPerEndpoint = 1000,
  quicPort = 0,
  httpPort = 0,
} = JSON.parse(process.argv[2] ?? '') as Record<'cert' | 'key' | 'database', string> &
  Partial<Record<'endpoints' | 'quicPerEndpoint' | 'quicPort' | 'httpPort', number>>
const api = new FakeApi(Date.now)
const relay = await startRelay({
  name: 'localhost',
  database,
  host: 'localhost',
  grpcPort: httpPort,
  quicPort,
  quicEndpoints: endpoints,
  certificate: { cert, key },
  api: {
    keys: () => api.keys(),
    lease: () =>
      Promise.resolve({
        id: 'bench',
        granted: 1_000_000_000,
        outstanding: 0,
        expires_at: new Date(Date.now() + 86_400_000).toISOString(),
        expires_in_ms: 86_400_000,
        period_end: new Date(Date.now() + 86_400_000).toISOString(),
      }),
    settle: () => Promise.resolve({ remaining: 1, expires_in_ms: 86_400_000 }),
    blocked: () => Promise.resolve({ suspended: [], unknown: [] }),
    watched: () => Promise.resolve([]),
    deletions: () => Promise.resolve([]),
    reportDeletion: () => Promise.resolve(),
    report: () => Promise.resolve(),
  },
  // Only the limits that a bench would hit are raised, because everything comes from one address.
  settings: {
    streams: {
      quicPerEndpoint,
      unauthenticatedPerAddress: 10_000,
      openingsPerSecond: 100_000,
      openingsBurst: 100_000,
    },
  },
  log: { write: (line) => void process.stderr.write(line), pretty: false, level: 'warn' },
})
process.on('message', (question: Question) => {
  if (question.type !== 'use') return
  const { user, system } = process.cpuUsage()
  process.send?.({ cpu: user + system, rss: process.memoryUsage.rss() } satisfies Use)
})
process.on('disconnect', () => void relay.close().then(() => process.exit(0)))
process.send?.({
  ready: { quicPort: relay.quicPorts[0], httpPort: relay.grpcPort },
  token: api.token('bench', { lifetime: 3600 }),
})
