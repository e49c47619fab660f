/**
 * What idle sessions cost a relay: CPU time of its whole process, by the number of sessions, the
 * transport, the traffic profile and the number of QUIC endpoints. The agents are in other processes.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { openAuthority } from '@static/cli/authority'
import type { TrafficProfileName } from '@static/protocol'
import { startIdle } from './relay/idle-process.ts'
import type { Kind } from './relay/load.ts'
import { startProcess } from './relay/process.ts'

interface Case {
  readonly kind: Kind
  readonly profile: TrafficProfileName
  readonly sessions: number
  readonly endpoints: number
}

const SESSIONS = Number(process.env['STATIC_BENCH_SESSIONS'] ?? 500)
const CASES: readonly Case[] = [
  { kind: 'grpc', profile: 'off', sessions: SESSIONS, endpoints: 1 },
  { kind: 'quic', profile: 'off', sessions: SESSIONS / 5, endpoints: 1 },
  { kind: 'quic', profile: 'off', sessions: SESSIONS, endpoints: 1 },
  { kind: 'quic', profile: 'off', sessions: SESSIONS, endpoints: 2 },
  { kind: 'grpc', profile: 'standard', sessions: SESSIONS, endpoints: 1 },
  { kind: 'quic', profile: 'standard', sessions: SESSIONS / 5, endpoints: 1 },
  { kind: 'quic', profile: 'standard', sessions: SESSIONS, endpoints: 1 },
  { kind: 'quic', profile: 'standard', sessions: SESSIONS, endpoints: 2 },
  { kind: 'quic', profile: 'standard', sessions: SESSIONS, endpoints: 4 },
]
const PROCESSES = 4
/** By then, even the last sessions have had their first ping. */
const SETTLE_MS = 8000
const MEASURE_MS = 20_000

const directory = mkdtempSync(join(tmpdir(), 'static-bench-'))
const authority = await openAuthority({ directory: join(directory, 'ca'), names: [] })
const { cert, key } = await authority.issue(['localhost'])
const only = process.env['STATIC_BENCH_ONLY']
const results: (Case & { readonly percent: number })[] = []
for (const one of CASES) {
  const name = `${one.kind}-${one.profile}-${one.sessions}-${one.endpoints}`
  if (only !== undefined && only !== name) continue
  const percent = await idlePercent(one)
  results.push({ ...one, percent })
  console.log(`${name}: ${percent.toFixed(1)} % of a core`)
}
if (only === undefined) {
  const folder = join(import.meta.dirname, 'results')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'idle.json'), `${JSON.stringify({ node: process.version, results }, null, 2)}\n`)
}
rmSync(directory, { recursive: true, force: true })

/** CPU of the relay, in percent of a core, while all sessions are idle. */
async function idlePercent({ kind, profile, sessions, endpoints }: Case): Promise<number> {
  const database = join(directory, `${kind}-${profile}-${sessions}-${endpoints}.sqlite`)
  // The first endpoint sends the others on when it has its share.
  const quicPerEndpoint = Math.ceil(sessions / endpoints)
  await using relay = await startProcess('server', { cert, key, database, endpoints, quicPerEndpoint })
  const { quicPort, httpPort } = relay.ready
  const endpoint = kind === 'quic' ? `quic://127.0.0.1:${quicPort}` : `https://127.0.0.1:${httpPort}`
  using _agents = await startIdle({ endpoint, ca: authority.cert, count: sessions, profile }, PROCESSES)
  await wait(SETTLE_MS)
  const before = await relay.use()
  const start = performance.now()
  await wait(MEASURE_MS)
  const { cpu } = await relay.use()
  return ((cpu - before.cpu) / 1000 / (performance.now() - start)) * 100
}
