/**
 * `npm run bench -- pairs OTHER_CHECKOUT`: this checkout against another one (with its packages installed). Both systems
 * are alive and warm at once and get short bursts in turn, because the same code runs up to twice as slow from one
 * minute to the next. Prints medians of ratios, this one by the other: below 1, this one is cheaper.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { median } from './api/processor.ts'
import type { Burst, Cost } from './pairs/side.ts'

const BURSTS: readonly Burst[] = [
  { kind: 'rounds', count: 100 },
  { kind: 'messages', count: 1000 },
  { kind: 'requests', count: 1000 },
]
const TURNS = 15
const WARM_UP = 2
const PARTS = ['wall', 'server', 'writer', 'reader'] as const

const root = resolve(import.meta.dirname, '..')
const [given] = process.argv.slice(2)
if (given === undefined) {
  console.log('No other checkout to compare with. Run `npm run bench -- pairs PATH`.')
  process.exit(0)
}
const other = resolve(given)
const directory = mkdtempSync(join(tmpdir(), 'static-pairs-'))
const sides = { this: await start('this', root), other: await start('other', other) }
const results: Record<string, Record<string, unknown>> = {}
for (const burst of BURSTS) {
  const pairs: { readonly this: Cost; readonly other: Cost }[] = []
  for (let turn = 0; turn < TURNS + WARM_UP; turn++) {
    // Neither side always goes first.
    const order = turn % 2 === 0 ? (['this', 'other'] as const) : (['other', 'this'] as const)
    const found: Partial<Record<keyof typeof sides, Cost>> = {}
    for (const name of order) found[name] = await run(sides[name], burst)
    if (turn >= WARM_UP && found.this && found.other) pairs.push({ this: found.this, other: found.other })
  }
  results[burst.kind] = report(burst, pairs)
}
for (const side of Object.values(sides)) {
  const ended = once(side, 'exit')
  side.disconnect()
  await ended
}
rmSync(directory, { recursive: true, force: true })
writeFileSync(join(import.meta.dirname, 'results/pairs.json'), `${JSON.stringify(results, null, 2)}\n`)

/** A side runs from a copy inside its checkout, so that it finds the packages there. */
async function start(name: string, checkout: string): Promise<ChildProcess> {
  const copy = join(checkout, '.cache/pairs/side.ts')
  mkdirSync(join(checkout, '.cache/pairs'), { recursive: true })
  copyFileSync(join(import.meta.dirname, 'pairs/side.ts'), copy)
  const place = { checkout, directory: join(directory, name) }
  mkdirSync(place.directory)
  const side = fork(copy, [JSON.stringify(place)], { cwd: checkout })
  await first(side)
  return side
}

async function run(side: ChildProcess, burst: Burst): Promise<Cost> {
  side.send(burst)
  return (await first(side)) as Cost
}

async function first(side: ChildProcess): Promise<unknown> {
  const ended = new AbortController()
  const gone = once(side, 'exit', { signal: ended.signal }).then(() => {
    throw new Error('A side has ended; see above.')
  })
  try {
    const [message] = (await Promise.race([once(side, 'message', { signal: ended.signal }), gone])) as [unknown]
    return message
  } finally {
    gone.catch(() => {})
    ended.abort()
  }
}

function report({ kind, count }: Burst, pairs: readonly { this: Cost; other: Cost }[]): Record<string, unknown> {
  const found: Record<string, unknown> = {}
  const cpu = ({ server, writer, reader }: Cost): number => server + writer + reader
  const rows = [...PARTS.map((part) => [part, (cost: Cost) => cost[part]] as const), ['cpu', cpu] as const]
  for (const [name, value] of rows) {
    const each = (side: 'this' | 'other'): number => median(pairs.map((pair) => value(pair[side]))) / count
    const ratios = pairs.map((pair) => value(pair.this) / value(pair.other)).sort((a, b) => a - b)
    const ratio = Number(median(ratios).toFixed(2))
    found[name] = {
      ratio,
      ratios: ratios.map((one) => Number(one.toFixed(2))),
      thisUs: each('this') * 1000,
      otherUs: each('other') * 1000,
    }
    console.log(
      `${kind.padEnd(8)} ${name.padEnd(6)} ${ratio.toFixed(2)}× ` +
        `(${ratios[0]?.toFixed(2)}–${ratios.at(-1)?.toFixed(2)}), ` +
        `${Math.round(each('this') * 1000)} µs against ${Math.round(each('other') * 1000)} µs`,
    )
  }
  return found
}
