/**
 * `npm run bench -- pairs OTHER_CHECKOUT [--only=KIND [--count=N]] [--hops] [--json]`: this checkout against another
 * one (with its packages installed). Both systems are alive and warm at once and get short bursts in turn, because the
 * same code runs up to twice as slow from one minute to the next. Prints medians of ratios, this one by the other:
 * below 1, this one is cheaper. `--hops` stamps each hop of round trips instead and prints how long each took; the
 * stamps cost time, so nothing else is measured then. `--only=rounds` (or `messages`, `fanOut`, `requests`) runs the
 * bursts of one kind, and `--count=8000` makes each of them that long. `--json` prints the figures as JSON.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { hopFigures, hopTable } from './pairs/hop-table.ts'
import type { Burst, Cost, Way } from './pairs/messages.ts'
import { compare, type Pair, table } from './pairs/report.ts'
import { compileCounter, type Side, startSide } from './pairs/start.ts'

const WAYS: readonly Way[] = ['grpc', 'quic']
/** How fast a process gets is partly luck (what is compiled when), so both sides start twice. */
const LIVES = 2
const TURNS = 6
const WARM_UP = 2

/** Both running systems. */
interface Sides extends AsyncDisposable {
  readonly this: Side
  readonly other: Side
  /** What both offer. */
  readonly ways: readonly Way[]
  readonly commits: Record<keyof Pair, string>
}

const words = process.argv.slice(2)
const [given] = words.filter((word) => !word.startsWith('--'))
const withHops = words.includes('--hops')
const asJson = words.includes('--json')
const valueOf = (flag: string): string | undefined =>
  words.find((word) => word.startsWith(`${flag}=`))?.slice(flag.length + 1)
const only = valueOf('--only')
const count = valueOf('--count')
if (given === undefined) {
  console.log('No other checkout to compare with. Run `npm run bench -- pairs PATH`.')
  process.exit(0)
}
const KINDS: readonly string[] = ['rounds', 'messages', 'fanOut', 'requests'] satisfies Burst['kind'][]
if (only !== undefined && !KINDS.includes(only)) {
  console.log(`Unknown kind of burst: ${only}. Known: ${KINDS.join(', ')}.`)
  process.exit(1)
}
if (count !== undefined && (only === undefined || !/^[1-9]\d{0,6}$/.test(count))) {
  console.log(`--count=${count} must be a whole number from 1 to 9999999, together with --only=KIND.`)
  process.exit(1)
}
const say = (text: string): void => void process.stderr.write(`${text}\n`)
const print = asJson ? say : (text: string): void => console.log(text)

const directory = mkdtempSync(join(tmpdir(), 'static-pairs-'))
const counter = compileCounter(directory)
if (counter === undefined) say('No C compiler (`/usr/bin/cc`): flushes and pages are not counted.')
const options = { directory, counter, withHops }
const checkouts = { this: resolve(import.meta.dirname, '..'), other: resolve(given) }

try {
  const results = withHops ? await measureHops() : await measurePairs()
  if (asJson) console.log(JSON.stringify(results, null, 2))
} finally {
  rmSync(directory, { recursive: true, force: true })
}

async function measurePairs(): Promise<object> {
  const found = new Map<string, { burst: Burst; pairs: Pair[] }>()
  let ran: object = {}
  for (let life = 0; life < LIVES; life++) {
    await using sides = await startSides(life)
    ran = sides.commits
    for (const burst of bursts(sides.ways)) {
      say(`Life ${life + 1} of ${LIVES}: ${titleOf(burst)}`)
      const pairs = (await takeTurns(sides, burst)).slice(WARM_UP)
      const known = found.get(titleOf(burst))
      if (known) known.pairs.push(...pairs)
      else found.set(titleOf(burst), { burst, pairs })
    }
  }
  const figures: Record<string, object> = {}
  for (const [title, { burst, pairs }] of found) {
    const compared = compare(burst, pairs)
    figures[title] = compared
    print(table(title, compared))
  }
  return { load: loadavg()[0], commits: ran, figures }
}

async function measureHops(): Promise<object> {
  const found: Record<string, object> = {}
  await using sides = await startSides(0)
  for (const way of sides.ways) {
    await takeTurns(sides, { kind: 'messages', way, count: 1000 })
    const pairs = (await takeTurns(sides, { kind: 'rounds', way, count: 100 })).slice(WARM_UP)
    const of = async (side: keyof Pair): Promise<ReturnType<typeof hopFigures>> =>
      hopFigures(
        await sides[side].stamps(),
        way,
        pairs.map((pair) => pair[side]),
      )
    const figures = { this: await of('this'), other: await of('other') }
    found[way] = figures
    print(hopTable(way, figures))
  }
  return { load: loadavg()[0], commits: sides.commits, hops: found }
}

/** Starts both; each life starts with a different one. */
async function startSides(life: number): Promise<Sides> {
  const started: Partial<Record<keyof Pair, Side>> = {}
  const order = life % 2 === 0 ? (['this', 'other'] as const) : (['other', 'this'] as const)
  for (const name of order) started[name] = await startSide(`${name}-${life}`, checkouts[name], options)
  const { this: own, other } = started
  if (!own || !other) throw new Error('A side has not started.')
  const ways = WAYS.filter((way) => own.ways.includes(way) && other.ways.includes(way))
  for (const way of WAYS) if (!ways.includes(way)) say(`One of the checkouts does not offer ${way}: skipped.`)
  const stop = async (): Promise<void> => {
    for (const side of [own, other]) await side.stop()
  }
  return { this: own, other, ways, commits: { this: own.commit, other: other.commit }, [Symbol.asyncDispose]: stop }
}

function titleOf({ way, kind }: Burst): string {
  return way === undefined ? kind : `${way} ${kind}`
}

function bursts(ways: readonly Way[]): readonly Burst[] {
  const all: Burst[] = ways.flatMap((way): Burst[] => [
    { kind: 'rounds', way, count: 100 },
    { kind: 'messages', way, count: 1000 },
    { kind: 'fanOut', way, count: 300 },
  ])
  all.push({ kind: 'requests', count: 1000 })
  if (only === undefined) return all
  const chosen = all.filter(({ kind }) => kind === only)
  return count === undefined ? chosen : chosen.map((burst) => ({ ...burst, count: Number(count) }))
}

/** Gives each side the burst; they take turns at going first. */
async function takeTurns(sides: Sides, burst: Burst): Promise<readonly Pair[]> {
  const pairs: Pair[] = []
  for (let turn = 0; turn < TURNS; turn++) {
    const order = turn % 2 === 0 ? (['this', 'other'] as const) : (['other', 'this'] as const)
    const found: Partial<Record<keyof Pair, Cost>> = {}
    for (const name of order) found[name] = await sides[name].run(burst)
    if (found.this && found.other) pairs.push({ this: found.this, other: found.other })
  }
  return pairs
}
