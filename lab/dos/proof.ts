/**
 * `npm run proof -- dos [NAMES…]`: floods `static up` in each way while a probe uses it: a call to the API, and a message
 * from agent to agent. Attackers run at nice 19. The probe's p99 may be five times its value just before the attack, and
 * must be below five times its first value again five seconds after it. Seconds in which the host takes time from this
 * machine do not count.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { fail, say } from '../../scripts/step.ts'
import { ATTACKS } from './attacks.ts'
import { undisturbed } from './machine.ts'
import { p99, Scene, type Series } from './scene.ts'
import type { Counts } from './target.ts'

/** How many seconds are measured. */
const QUIET = 10
const ATTACK = 15
const AFTER = 5
const SECOND_MS = 1000
const RECOVERY_MS = 5000
const MOST = 5
/** Below this, a multiple says nothing. */
const LEAST_MS = 10
/** Connections, streams or requests at once; the descriptors of servers and attacker are limited. */
const SIZES: Readonly<Record<string, number>> = { 'idle connections': 10_000, 'QUIC Initials': 8, 'Argon2 floods': 64 }
const SIZE = 200
/** Attacks that are measured once nearly all of their connections are open: some are just being replaced. */
const HOLDS: ReadonlySet<string> = new Set(['idle connections'])
const MOST_HELD = 0.99
const MEBIBYTE = 1024 * 1024

const names = process.argv.slice(2)
const unknown = names.find((name) => !Object.hasOwn(ATTACKS, name))
if (unknown !== undefined) fail(`There is no attack ${unknown}. Known: ${Object.keys(ATTACKS).join(', ')}.`)
const chosen = names.length > 0 ? names : Object.keys(ATTACKS)

const scene = await Scene.start()
say('Measuring the probe without an attack')
await probe(AFTER)
const first = await probe(QUIET)
show('quiet', first)
let [worst, slowest] = [0, '']
const faults: string[] = []
for (const attack of chosen) {
  const { ratio, faults: found } = await flood(attack)
  if (ratio > worst) [worst, slowest] = [ratio, attack]
  faults.push(...found)
}
const text = `${chosen.length} floods: worst p99 of the probe ${worst.toFixed(1)} times its quiet value (${slowest})`
process.stdout.write(`${text}; the servers use ${Math.round(scene.memory / MEBIBYTE)} MiB\n`)
// Ends the servers: `fail` ends this process at once.
await scene[Symbol.asyncDispose]()
if (faults.length > 0) fail(faults.join('\n'))
process.stdout.write(`promise T12: ${text}, normal again within 5 s\n`)

function show(name: string, { api, message }: Series, more = 'no attack'): void {
  const text = `API ${p99(api).toFixed(1)} ms, message ${p99(message).toFixed(1)} ms (p99 of ${api.length} probes)`
  process.stdout.write(`${name.padEnd(18)} ${text}, ${Math.round(scene.memory / MEBIBYTE)} MiB, ${more}\n`)
}

/** Measures before an attack, beside it and after it. */
async function flood(attack: string): Promise<{ readonly ratio: number; readonly faults: string[] }> {
  const quiet = await probe(QUIET)
  const size = SIZES[attack] ?? SIZE
  const isHeld = HOLDS.has(attack)
  const isFar = ({ hits, held }: Counts): boolean => (isHeld ? held >= size * MOST_HELD : hits > 0)
  const { result: during, counts } = await scene.under([attack], size, () => probe(ATTACK), isFar)
  const { hits = 0, tried = 0, held = 0 } = counts.get(attack) ?? {}
  show(attack, during, isHeld ? `${tried} connections tried, ${held} held` : `${hits} hits`)
  await pause(RECOVERY_MS)
  const after = await probe(AFTER)
  const [ratio, rest] = [ratioOf(during, quiet), ratioOf(after, first)]
  const faults = [
    hits === 0 && 'did not reach the servers',
    isHeld && held < size * MOST_HELD && `held ${held} of ${size} connections`,
    ratio > MOST && `${ratio.toFixed(1)} times the quiet p99`,
    rest > MOST && `still ${rest.toFixed(1)} times the quiet p99 after ${RECOVERY_MS} ms`,
  ]
  return { ratio, faults: faults.filter((fault) => fault !== false).map((fault) => `${attack}: ${fault}`) }
}

/** Probes for so many seconds in which the machine is its own. */
async function probe(seconds: number): Promise<Series> {
  const results = await undisturbed(seconds, () => scene.probe(SECOND_MS, 1))
  return { api: results.flatMap(({ api }) => api), message: results.flatMap(({ message }) => message) }
}

function ratioOf({ api, message }: Series, quiet: Series): number {
  const ratio = (now: readonly number[], before: readonly number[]): number =>
    p99(now) / Math.max(LEAST_MS, p99(before))
  return Math.max(ratio(api, quiet.api), ratio(message, quiet.message))
}
