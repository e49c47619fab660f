/** A relay in its own process, durable on SQLite or a node of a cluster, with unlimited quota, so that tests can kill and measure it. */
import { startRelay } from '@static/relay'
import { crashingStore } from '../crash/store-steps.ts'
import type { ChildOptions, ChildQuestion } from './process.ts'

const { cert, key, ca, keys, database, ports, settings, failAt, cluster, files } = JSON.parse(
  process.argv[2] ?? '',
) as ChildOptions
const tomorrow = new Date(Date.now() + 86_400_000).toISOString()
let leases = 0
const relay = await startRelay({
  name: 'localhost',
  database: cluster?.database ?? (failAt === undefined ? database : crashingStore(database, failAt)),
  keyFile: cluster?.keyFile,
  nats: cluster?.nats,
  host: 'localhost',
  grpcPort: ports.grpc,
  quicPort: ports.quic,
  quicEndpoints: 1,
  certificate: { cert, key },
  proxyCa: ca,
  files,
  api: {
    keys: () => Promise.resolve(keys),
    lease: (_account, wanted) =>
      Promise.resolve({
        id: `lease-${++leases}`,
        granted: wanted,
        outstanding: 0,
        expires_at: tomorrow,
        expires_in_ms: 86_400_000,
        period_end: tomorrow,
      }),
    settle: () => Promise.resolve({ remaining: 0, expires_in_ms: 86_400_000 }),
    blocked: () => Promise.resolve({ suspended: [], unknown: [] }),
    watched: () => Promise.resolve([]),
    report: () => Promise.resolve(),
    deletions: () => Promise.resolve([]),
    reportDeletion: () => Promise.resolve(),
  },
  settings,
  log: { write: (line) => void process.stderr.write(line), pretty: false, level: 'error' },
})
process.on('message', (question: ChildQuestion) => {
  if (question === 'collect') globalThis.gc?.()
  process.send?.({ rss: process.memoryUsage.rss() })
})
process.on('disconnect', () => void relay.close().then(() => process.exit(0)))
process.send?.('ready')
