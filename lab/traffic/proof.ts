/**
 * `npm run proof -- traffic`: 64 connections of real agents, recorded by tcpdump in a network of their own, in every
 * profile and over both ways. Agents send receipts, as they do by default. `--runs 4` pools that and three more of
 * `strict`, with their own seeds: a leak too small for one shows in all. Writes bench/results/traffic.json and
 * traffic.svg, and the table in docs/04-traffic.md.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { TrafficProfileName } from '@static/protocol'
import { seedOf } from '@static/testkit/random'
import {
  type Finding,
  findingOf,
  type Findings,
  type Likeness,
  protocolOf,
  rounded,
  sizeWords,
  type Trace,
  type WayFindings,
} from './findings.ts'
import { samplesOf } from './features.ts'
import { plantLeak } from './leak.ts'
import { type Plan, record, type Recording, settle } from './measure.ts'
import { isInside, obstacle, raiseLoopback, runInside } from './network.ts'
import { type TrialOptions, tryToTell } from './permutation.ts'
import { plot } from './plot.ts'
import { pooled } from './pooled.ts'
import { PROFILES, Scene, type Way, WAYS } from './scene.ts'
import { burstsOf, onlyInOne, sizesOf } from './sizes.ts'
import { tableOf, withTable } from './table.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const SEED = seedOf(6)
const SIZE = { processes: 16, agents: 4 } as const
/** Messages of each agent; its peer sends as many, so a connection sees twice that. */
const PER_SECOND = 0.6
const TURNS: Plan = { blockMs: 5000, blocks: 12, talk: 'turns', perSecond: PER_SECOND, longestBytes: 4096, seed: SEED }
const PLANS = {
  off: TURNS,
  standard: TURNS,
  private: TURNS,
  // Longer than a step of the ladder takes.
  privateLong: { ...TURNS, blockMs: 20_000, blocks: 6 },
  // More windows, because there is less to find.
  strict: { ...TURNS, blocks: 24 },
} satisfies Record<string, Plan>
/** Time until a session's initial traffic is over; on the ladder, until it has come down. */
const SETTLE_MS: Readonly<Record<TrafficProfileName, number>> = {
  off: 5000,
  standard: 5000,
  private: 35_000,
  strict: 8000,
}
const TRIAL = { splits: 8, permutations: 400 } as const
const LEAK_AUC = 0.58
const RUNS = Number(parseArgs({ options: { runs: { type: 'string', default: '1' } } }).values.runs)
/** Distance between the seeds of two runs. */
const SEED_STEP = 100
/** The pooled p of several runs of `strict` must exceed this; for one run, which chance moves more, 0.01. */
const LEAST_P = RUNS > 1 ? 0.1 : 0.01
/** Plan for the sizes of real messages in `standard`: at most one message a second on a connection. */
const SMALL: Plan = { ...TURNS, blocks: 8, talk: 'always', perSecond: 0.4, longestBytes: 1024 }
const COVER: Plan = { ...SMALL, talk: 'never' }

/**
 * Bytes that are sometimes added to a unit. QUIC: acknowledgements, longer numbers. HTTP/2: two frames that open
 * windows.
 */
const UNIT_SLACK = 26

type Kind = keyof typeof PLANS

const traces: Record<Way, Record<string, Trace>> = { quic: {}, grpc: {} }

async function main(): Promise<boolean> {
  raiseLoopback()
  const runs: Findings[] = []
  for (let at = 0; at < RUNS; at++) runs.push(await oneRun(SEED + at * SEED_STEP, at === 0 ? PROFILES : ['strict']))
  const findings = pooled(runs)
  const results = join(ROOT, 'bench/results')
  writeFileSync(join(results, 'traffic.json'), `${JSON.stringify(findings, null, 2)}\n`)
  writeFileSync(join(results, 'traffic.svg'), plot(findings, traces))
  const table = tableOf(findings)
  const page = join(ROOT, 'docs/04-traffic.md')
  writeFileSync(page, withTable(readFileSync(page, 'utf8'), table))
  console.log(`\n${table}\n`)
  const checks = WAYS.flatMap((way) => checksOf(way, findings.ways[way]))
  for (const { isMet, words } of checks) console.log(`${isMet ? '✔' : '✘'} ${words}`)
  const isMet = checks.every((check) => check.isMet)
  if (isMet) console.log(`promise T11: ${promiseOf(findings)}`)
  return isMet
}

async function oneRun(seed: number, profiles: readonly TrafficProfileName[]): Promise<Findings> {
  say(`seed ${seed}; ${SIZE.processes} processes with ${SIZE.agents} agents each`)
  await using scene = await Scene.start(SIZE)
  say('everybody is in a channel')
  const ways = {
    quic: await onWay(scene, 'quic', seed, profiles),
    grpc: await onWay(scene, 'grpc', seed, profiles),
  }
  return {
    date: new Date().toISOString().slice(0, 10),
    seed,
    connections: SIZE.processes * SIZE.agents,
    processes: SIZE.processes,
    messagesPerSecond: PER_SECOND * 2,
    ways,
  }
}

function promiseOf({ ways }: Findings): string {
  const figures = WAYS.map((way) => {
    const { auc, p } = ways[way].profiles.strict as Finding
    return `${way} AUC ${auc.toFixed(3)}, p ${p.toFixed(2)}`
  })
  const seeds = Array.from({ length: RUNS }, (_, at) => SEED + at * SEED_STEP).join(', ')
  return `\`strict\` with receipts, ${RUNS} ${RUNS === 1 ? 'run' : 'runs'} (seeds ${seeds}): ${figures.join('; ')}`
}

async function onWay(
  scene: Scene,
  way: Way,
  seed: number,
  measured: readonly TrafficProfileName[],
): Promise<WayFindings> {
  const profiles: Partial<Record<Kind, Finding>> = {}
  const strictTries: Finding[] = []
  let likeness: Likeness | undefined
  let plantedLeak: WayFindings['plantedLeak']
  for (const profile of measured) {
    await settle(scene, way, profile, SETTLE_MS[profile])
    const first = await measure(scene, way, profile, seed)
    profiles[profile] = first.finding
    traces[way][profile] = traceOf(first.recording)
    if (profile === 'standard') likeness = await compare(scene, way)
    if (profile === 'private') profiles.privateLong = (await measure(scene, way, 'privateLong', seed)).finding
    if (profile === 'strict') {
      strictTries.push(first.finding)
      const { recording } = first
      const leak = plantLeak(recording.connections, recording.schedule, LEAK_AUC, optionsOf(seed))
      plantedLeak = { share: rounded(leak.share), auc: rounded(leak.trial.auc), p: rounded(leak.trial.p) }
      say(
        `${way} strict with a leak in ${percent(leak.share)} of its cells: AUC ${plantedLeak.auc}, p ${plantedLeak.p}`,
      )
      // Several runs are pooled instead: retrying only bad results would hide leaks.
      if (RUNS === 1 && !isHidden(first.finding)) {
        say(`${way} strict is measured once more, with another seed`)
        const { finding } = await measure(scene, way, 'strict', seed + 1)
        strictTries.push(finding)
        profiles.strict = finding
      }
    }
    await scene.close()
    // The relay forgets sessions that have ended.
    await wait(1000)
  }
  return { profiles, strictTries, ...(likeness && { likeness }), ...(plantedLeak && { plantedLeak }) }
}

/** Records and tests one kind of talk; all agents are connected. */
async function measure(
  scene: Scene,
  way: Way,
  kind: Kind,
  seed: number,
): Promise<{ recording: Recording; finding: Finding }> {
  const recording = await record(scene, { ...PLANS[kind], seed })
  const trial = tryToTell(samplesOf(recording.connections, recording.schedule), optionsOf(seed))
  const finding = findingOf(recording, trial, seed, way)
  const { auc, p, chance, best, bytesPerSecond, windows } = finding
  const told = best.map(({ feature, auc: alone }) => `${feature} ${alone}`).join(', ')
  say(
    `${way} ${kind}: AUC ${auc}, p ${p} (99 % of chance below ${chance.p99}), ${windows.idle}+${windows.active} windows, ` +
      `${bytesPerSecond.up} and ${bytesPerSecond.down} B/s; most telling: ${told}`,
  )
  return { recording, finding }
}

/** Records real and cover traffic in `standard`; all agents are connected. */
async function compare(scene: Scene, way: Way): Promise<Likeness> {
  const quiet = await record(scene, COVER)
  const small = await record(scene, SMALL)
  const [cover, real] = [quiet, small].map(({ connections, schedule }) =>
    sizesOf(connections, schedule, protocolOf(way)),
  )
  const bursts = (['up', 'down'] as const).flatMap((side) => burstsOf(quiet.connections, quiet.schedule, side))
  const unitBytes = mostFrequent(bursts)
  const likeness = {
    messagesPerSecond: SMALL.perSecond * 2,
    cover: sizeWords(cover!),
    real: sizeWords(real!),
    differences: onlyInOne(cover!, real!),
    unitBytes,
    unitShare: rounded(bursts.filter((bytes) => isUnits(bytes, unitBytes)).length / bursts.length),
  }
  say(`${way} standard: cover ${JSON.stringify(likeness.cover)}, real ${JSON.stringify(likeness.real)}`)
  say(`${way} standard: ${percent(likeness.unitShare)} of what leaves at once are whole units of ${unitBytes} bytes`)
  return likeness
}

/** Whether it is a whole number of units. */
function isUnits(bytes: number, unit: number): boolean {
  const count = Math.round(bytes / unit)
  return count > 0 && Math.abs(bytes - count * unit) <= count * UNIT_SLACK
}

function mostFrequent(values: readonly number[]): number {
  const counts = new Map<number, number>()
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1)
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0] ?? 0
}

interface Check {
  readonly isMet: boolean
  readonly words: string
}

function checksOf(way: Way, { profiles, likeness, plantedLeak, strictTries }: WayFindings): Check[] {
  const { off, strict } = profiles
  if (!off || !strict || !likeness || !plantedLeak) throw new Error('Not everything was measured.')
  const others = strictTries.map(({ auc, p }) => `AUC ${auc}, p ${p}`).join('; ')
  const again = strictTries.length > 1 ? ` (${RUNS > 1 ? 'pooled from' : 'the second of'} ${others})` : ''
  const differences = likeness.differences.length === 0 ? '' : `: ${likeness.differences.join('; ')}`
  return [
    { isMet: off.auc >= 0.9, words: `${way}: without protection idle is told from active: AUC ${off.auc} ≥ 0.9` },
    {
      isMet: isHidden(strict),
      words: `${way}: in strict it is not: AUC ${strict.auc} ≤ 0.55 and p ${strict.p} > ${LEAST_P}${again}`,
    },
    {
      isMet: plantedLeak.p <= 0.01,
      words: `${way}: a planted leak worth ${plantedLeak.auc} is found: p ${plantedLeak.p} ≤ 0.01`,
    },
    {
      isMet: likeness.unitShare >= 0.99,
      words: `${way}: cover leaves in units of ${likeness.unitBytes} bytes: ${percent(likeness.unitShare)} ≥ 99 %`,
    },
    {
      isMet: likeness.differences.length === 0,
      words: `${way}: in standard the sizes of real and cover packets are the same${differences}`,
    },
    { isMet: true, words: `${way}: nothing of what was said is in any capture, and a mark in the clear is in all` },
  ]
}

function isHidden({ auc, p }: Finding): boolean {
  return auc <= 0.55 && p > LEAST_P
}

function optionsOf(seed: number): TrialOptions {
  return { ...TRIAL, seed }
}

/** A typical connection whose first block is idle. */
function traceOf({ connections, schedule }: Recording): Trace {
  const candidates = connections.filter(({ phase }) => phase === 1).sort((a, b) => a.up.length - b.up.length)
  return { connection: candidates[Math.floor(candidates.length / 2)]!, schedule }
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`
}

function say(words: string): void {
  console.log(`${new Date().toISOString().slice(11, 19)} ${words}`)
}

if (isInside()) {
  process.exitCode = (await main()) ? 0 : 1
} else {
  const why = obstacle()
  if (why === undefined)
    process.exitCode = runInside(import.meta.filename, 'inherit', process.argv.slice(2)).status ?? 1
  else {
    console.error(why)
    process.exitCode = 1
  }
}
