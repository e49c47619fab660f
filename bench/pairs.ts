/**
 * `npm run bench -- pairs OTHER_CHECKOUT [--hops] [--json]`: this checkout against another one (with its packages
 * installed). Both systems are alive and warm at once and get short bursts in turn, because the same code runs up to
 * twice as slow from one minute to the next. Prints medians of ratios, this one by the other: below 1, this one is
 * cheaper. `--hops` stamps each hop of round trips instead and prints how long each took; the stamps cost time, so
 * nothing else is measured then. `--json` prints the figures as JSON.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { hopFigures, hopTable } from './pairs/hop-table.ts'
import type { Burst, Cost, Way } from './pairs/messages.ts'
import { compare, type Pair, table } from './pairs/report.ts'
import { compileCounter, type Side, startSide } from './pairs/start.ts'

const WAYS: readonly Way[] = ['grpc', 'quic']
const TURNS = 10
const WARM_UP = 2

const words = process.argv.slice(2)
const [given] = words.filter((word) => !word.startsWith('--'))
const withHops = words.includes('--hops')
const asJson = words.includes('--json')
if (given === undefined) {
  console.log('No other checkout to compare with. Run `npm run bench -- pairs PATH`.')
  process.exit(0)
}
const say = (text: string): void => void process.stderr.write(`${text}\n`)
const print = asJson ? say : (text: string): void => console.log(text)

const directory = mkdtempSync(join(tmpdir(), 'static-pairs-'))
const counter = compileCounter(directory)
if (counter === undefined) say('No C compiler (`/usr/bin/cc`): flushes and pages are not counted.')
const options = { directory, counter, withHops }
const sides = {
  this: await startSide('this', resolve(import.meta.dirname, '..'), options),
  other: await startSide('other', resolve(given), options),
}
const ways = WAYS.filter((way) => Object.values(sides).every((side) => side.ways.includes(way)))
for (const way of WAYS) if (!ways.includes(way)) say(`One of the checkouts does not offer ${way}: skipped.`)

try {
  const results = withHops ? await measureHops() : await measurePairs()
  if (asJson) console.log(JSON.stringify(results, null, 2))
  const name = withHops ? 'hops' : 'pairs'
  writeFileSync(join(import.meta.dirname, `results/${name}.json`), `${JSON.stringify(results, null, 2)}\n`)
} finally {
  for (const side of Object.values(sides)) await side.stop()
  rmSync(directory, { recursive: true, force: true })
}

async function measurePairs(): Promise<object> {
  const found: Record<string, object> = {}
  for (const burst of bursts()) {
    const figures = compare(burst, (await takeTurns(burst, TURNS)).slice(WARM_UP))
    const title = [burst.way, burst.kind].filter((word) => word !== undefined).join(' ')
    found[title] = figures
    print(table(title, figures))
  }
  return { turns: TURNS - WARM_UP, load: loadavg()[0], commits: commits(), figures: found }
}

async function measureHops(): Promise<object> {
  const found: Record<string, object> = {}
  for (const way of ways) {
    await takeTurns({ kind: 'messages', way, count: 1000 }, 2)
    const pairs = (await takeTurns({ kind: 'rounds', way, count: 100 }, TURNS)).slice(WARM_UP)
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
  return { turns: TURNS - WARM_UP, load: loadavg()[0], commits: commits(), hops: found }
}

function* bursts(): Generator<Burst> {
  for (const way of ways) {
    yield { kind: 'rounds', way, count: 100 }
    yield { kind: 'messages', way, count: 1000 }
    yield { kind: 'fanOut', way, count: 300 }
  }
  yield { kind: 'requests', count: 1000 }
}

/** Each side gets the burst, and neither always goes first. */
async function takeTurns(burst: Burst, turns: number): Promise<readonly Pair[]> {
  const pairs: Pair[] = []
  for (let turn = 0; turn < turns; turn++) {
    const order = turn % 2 === 0 ? (['this', 'other'] as const) : (['other', 'this'] as const)
    const found: Partial<Record<keyof Pair, Cost>> = {}
    for (const name of order) found[name] = await sides[name].run(burst)
    if (found.this && found.other) pairs.push({ this: found.this, other: found.other })
  }
  return pairs
}

function commits(): Record<keyof Pair, string> {
  const of = ({ commit }: Side): string => commit
  return { this: of(sides.this), other: of(sides.other) }
}
