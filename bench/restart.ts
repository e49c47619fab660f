/**
 * How agents come back after a relay restart: the time from the moment the relay listens again until each has a
 * session, and the most that open in one second. The relay stops in order or is killed, and stays away for a while. The
 * sessions are guests' by the agent's own code, in other processes; a quarter of them over gRPC.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { openAuthority } from '@static/cli/authority'
import { startIdle } from './relay/idle-process.ts'
import { startProcess } from './relay/process.ts'

const SESSIONS = Number(process.env['STATIC_BENCH_SESSIONS'] ?? 500)
const BY_GRPC = Math.floor(SESSIONS / 4)
const PROCESSES = 4
const CASES = [
  { how: 'stop', awayMs: 1000 },
  { how: 'stop', awayMs: 20_000 },
  { how: 'kill', awayMs: 5000 },
] as const
/** No agent waits longer than the longest backoff plus a lost dial; later sessions count as never opened. */
const MOST_MS = 60_000
const TARGET_MS = 10_000

const directory = mkdtempSync(join(tmpdir(), 'static-bench-'))
const authority = await openAuthority({ directory: join(directory, 'ca'), names: [] })
const { cert, key } = await authority.issue(['localhost'])
const results: Record<string, unknown>[] = []
for (const [at, one] of CASES.entries()) {
  const database = join(directory, `restart-${at}.sqlite`)
  const found = await restart(database, one)
  results.push({ ...one, sessions: SESSIONS, ...found })
  const isMet = found.back === SESSIONS && found.p95 <= TARGET_MS
  if (!isMet) process.exitCode = 1
  console.log(
    `${one.how}, away for ${one.awayMs / 1000} s: ${found.back} of ${SESSIONS} back; p50 ${seconds(found.p50)}, ` +
      `p95 ${seconds(found.p95)} (target ≤ ${seconds(TARGET_MS)} ${isMet ? 'met' : 'MISSED'}), last ${seconds(found.last)}; ` +
      `at most ${found.peak} in one second`,
  )
}
const folder = join(import.meta.dirname, 'results')
mkdirSync(folder, { recursive: true })
writeFileSync(join(folder, 'restart.json'), `${JSON.stringify({ node: process.version, results }, null, 2)}\n`)
rmSync(directory, { recursive: true, force: true })

interface Found {
  readonly back: number
  readonly p50: number
  readonly p95: number
  readonly last: number
  readonly peak: number
}

async function restart(database: string, { how, awayMs }: (typeof CASES)[number]): Promise<Found> {
  const first = await startProcess('server', { cert, key, database })
  const { quicPort, httpPort } = first.ready
  const common = { ca: authority.cert, profile: 'standard' } as const
  const quic = { ...common, endpoint: `quic://127.0.0.1:${quicPort}`, count: SESSIONS - BY_GRPC }
  const grpc = { ...common, endpoint: `https://127.0.0.1:${httpPort}`, count: BY_GRPC }
  using byQuic = await startIdle(quic, PROCESSES - 1)
  using byGrpc = await startIdle(grpc, 1)
  const times: number[] = []
  const all = Promise.withResolvers<void>()
  const note = (time: number): void => {
    times.push(time)
    if (times.length === SESSIONS) all.resolve()
  }
  byQuic.onOpened(note)
  byGrpc.onOpened(note)
  await (how === 'kill' ? first.kill() : first[Symbol.asyncDispose]())
  await wait(awayMs)
  await using _second = await startProcess('server', { cert, key, database, quicPort, httpPort })
  const since = performance.timeOrigin + performance.now()
  await Promise.race([all.promise, wait(MOST_MS)])
  const took = times.map((time) => Math.max(0, time - since)).sort((a, b) => a - b)
  return {
    back: took.length,
    p50: took[Math.floor(took.length / 2)] ?? MOST_MS,
    p95: took[Math.floor(took.length * 0.95)] ?? MOST_MS,
    last: took.at(-1) ?? MOST_MS,
    peak: mostInASecond(took),
  }
}

function mostInASecond(sorted: readonly number[]): number {
  let most = 0
  let from = 0
  for (const [at, time] of sorted.entries()) {
    while (time - (sorted[from] ?? 0) >= 1000) from++
    most = Math.max(most, at - from + 1)
  }
  return most
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
