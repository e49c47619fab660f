/**
 * `npm run proof -- chaos [--seeds 3] [--seed N] [--kills 40] [--faults NAMES]`: a relay, an API and agents in
 * TypeScript and Python over QUIC and gRPC, as processes, while they are killed, stopped, cut off, and their disks and
 * clocks fail; members come, go and are removed, and the channel changes hands meanwhile. With `--cluster` (`npm run proof -- chaos-cluster`) the
 * relay has three nodes over PostgreSQL and NATS. The histories are kept in `.cache/chaos`.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { fail, say } from '../../scripts/step.ts'
import { type Faults } from './faults/fault.ts'
import { ONE_NODE_FAULTS } from './faults/one-node.ts'
import { SEVERAL_NODES_FAULTS } from './faults/several-nodes.ts'
import { type Report, run, type Run } from './machine.ts'
import { OneNode } from './world/one-node.ts'
import type { Servers } from './world/servers.ts'
import { SeveralNodes } from './world/several-nodes.ts'

const KEPT = resolve(import.meta.dirname, '../../.cache/chaos')

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '3' },
    seed: { type: 'string', default: '1' },
    kills: { type: 'string', default: '40' },
    faults: { type: 'string' },
    strace: { type: 'string' },
    cluster: { type: 'boolean', default: false },
  },
})
/** The number given for an option. */
function count(name: 'seeds' | 'seed' | 'kills'): number {
  const value = Number(values[name])
  if (!Number.isSafeInteger(value) || value < 1)
    fail(`--${name} is ${values[name]}. It must be a whole number of at least 1.`)
  return value
}
const SETTINGS: Omit<Run<Servers>, 'seed' | 'startServers' | 'faults'> = {
  kills: count('kills'),
  stayers: [
    { name: 'owner', language: 'typescript', way: 'grpc' },
    { name: 'witness', language: 'typescript', way: 'quic' },
    { name: 'pia', language: 'python', way: 'quic' },
    { name: 'pete', language: 'python', way: 'grpc' },
  ],
  visitors: [
    { name: 'vera', language: 'typescript', way: 'grpc', isGuest: true },
    { name: 'vic', language: 'typescript', way: 'quic' },
    { name: 'vito', language: 'typescript', way: 'grpc' },
  ],
  pauseMs: 200,
  faultPauseMs: 1500,
  lifePauseMs: 500,
  joinSeconds: 15,
  mostFaultMs: 3000,
  drainMs: 30_000,
  strace: values.strace,
  say: (line) => process.stderr.write(`  ${line}\n`),
}

/** The faults that may happen. */
function chosen<Kind extends Servers>(all: Faults<Kind>): Faults<Kind> {
  const names = values.faults?.split(',') ?? Object.keys(all)
  const unknown = names.filter((name) => !Object.hasOwn(all, name))
  if (unknown.length > 0) fail(`Unknown faults: ${unknown.join()}. Known: ${Object.keys(all).join()}.`)
  return Object.fromEntries(Object.entries(all).filter(([name]) => names.includes(name)))
}

function runOnce(seed: number): Promise<Report> {
  return values.cluster
    ? run({
        ...SETTINGS,
        seed,
        faults: chosen(SEVERAL_NODES_FAULTS),
        startServers: (workspace) => SeveralNodes.start(workspace),
      })
    : run({ ...SETTINGS, seed, faults: chosen(ONE_NODE_FAULTS), startServers: (workspace) => OneNode.start(workspace) })
}

const reports: Report[] = []
const seeds = Array.from({ length: count('seeds') }, (_, at) => count('seed') + at)
for (const seed of seeds) {
  say(`Seed ${seed}`)
  const report = await runOnce(seed)
  const { histories, wrong, ...figures } = report
  process.stdout.write(`seed ${seed}: ${JSON.stringify(figures)}\n`)
  mkdirSync(KEPT, { recursive: true })
  for (const { name, notes } of histories) {
    writeFileSync(join(KEPT, `${seed}-${name}.history`), notes.map((note) => `${JSON.stringify(note)}\n`).join(''))
  }
  if (wrong.length > 0) fail(`Seed ${seed}: ${wrong.length} faults:\n${wrong.slice(0, 40).join('\n')}`)
  reports.push(report)
}
const sum = (key: 'kills' | 'faults' | 'acknowledged' | 'answered' | 'receipts'): number =>
  reports.reduce((total, report) => total + report[key], 0)
const place = values.cluster ? 'chaos on three nodes' : 'chaos'
const [first, last] = [seeds[0], seeds.at(-1)]
const range = first === last ? `seed ${first}` : `seeds ${first} to ${last}`
const runs = `${place}, ${range}: ${sum('kills')} kills in ${sum('faults')} faults`
const slowest = Math.max(...reports.map(({ drainMs }) => drainMs)) / 1000
process.stdout.write(
  `promise T1: ${runs}: of ${sum('acknowledged')} messages acknowledged, 0 lost, 0 doubled, all read within ${slowest.toFixed(0)} s\n`,
)
process.stdout.write(
  `promise T4: ${runs}: 0 of ${sum('acknowledged')} messages doubled, ${sum('answered')} requests answered once, ${sum('receipts')} receipts true\n`,
)
process.stdout.write(`promise T5: ${runs}: one order and equal words for all members\n`)
