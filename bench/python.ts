/**
 * Two agents in Python beside two in TypeScript, in one run on one relay: messages per second one way,
 * the time of a round trip, and CPU per message on each side. 1 KiB payloads, 64 under way at once (in Python: 64
 * threads), durable on all disks. An agent in Python is two processes, its driver counted in. Target: at least 0.6
 * times the messages a second of TypeScript.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { percentile, roundTrips, type Run, stream } from './agent/group.ts'
import { startSystem, WAYS } from './agent/system.ts'
import { median } from './api/processor.ts'
import { startPythonAgent } from './python/process.ts'

const ROUNDS = 5
const MESSAGES = 2000
const ROUND_TRIPS = 300
const TARGET = 0.6
const LANGUAGES = ['typescript', 'python'] as const

using workspace = await makeWorkspace()
await using system = await startSystem(workspace)

const results: Record<string, unknown> = {}
const missed: string[] = []
for (const way of WAYS) {
  await using typescript = await system.group(way, `bench/${way}/typescript`, 1)
  await using python = await system.group(way, `bench/${way}/python`, 1, startPythonAgent)
  const pairs = { typescript, python }
  const runs: Record<keyof typeof pairs, Run[]> = { typescript: [], python: [] }
  for (const language of LANGUAGES) await stream(pairs[language], MESSAGES / 2)
  // Alternating, so that other work on the machine affects both.
  for (let round = 0; round < ROUNDS; round++) {
    for (const language of LANGUAGES) runs[language].push(await stream(pairs[language], MESSAGES))
  }
  const of = (language: keyof typeof pairs, field: keyof Run): number => median(runs[language].map((run) => run[field]))
  for (const language of LANGUAGES) {
    const times = await roundTrips(pairs[language], ROUND_TRIPS)
    results[`${way} ${language}`] = {
      messagesPerSecond: of(language, 'perSecond'),
      roundTripMs: { p50: percentile(times, 0.5), p99: percentile(times, 0.99) },
      cpuMicroseconds: { sender: of(language, 'sender'), receiver: of(language, 'receiver') },
    }
    console.log(way, language, JSON.stringify(results[`${way} ${language}`]))
  }
  const ratio = Number((of('python', 'perSecond') / of('typescript', 'perSecond')).toFixed(2))
  results[`${way} ratio`] = ratio
  console.log(way, `ratio ${ratio} (target ${TARGET})`)
  if (ratio < TARGET) missed.push(way)
}
writeFileSync(join(import.meta.dirname, 'results/python.json'), `${JSON.stringify(results, null, 2)}\n`)
if (missed.length > 0) process.exitCode = 1
