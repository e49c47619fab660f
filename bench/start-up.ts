/**
 * `npm run bench -- start-up [OTHER_CHECKOUT]`: CPU and wall time until the SDK is imported, an agent has connected for
 * the first time, a command has run, and `static up` is ready. With another checkout, both take turns: medians of
 * ratios, this one by the other. From the sources of a checkout; commands use their code cache.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { median } from './api/processor.ts'
import { openCheckout, type Starts, type Taken } from './start-up/checkout.ts'

const TURNS = 9

const [given] = process.argv.slice(2).filter((word) => !word.startsWith('--'))
const directory = mkdtempSync(join(tmpdir(), 'static-start-up-'))
try {
  await using own = await openCheckout(resolve(import.meta.dirname, '..'), join(directory, 'this'))
  await using other = given === undefined ? undefined : await openCheckout(resolve(given), join(directory, 'other'))
  const results: Record<string, object> = {}
  for (const name of Object.keys(own.starts)) {
    const taken = await takeTurns(name, [own.starts, ...(other ? [other.starts] : [])])
    results[name] = report(name, taken)
  }
  writeFileSync(join(import.meta.dirname, 'results/start-up.json'), `${JSON.stringify(results, null, 2)}\n`)
} finally {
  rmSync(directory, { recursive: true, force: true })
}

/** Results by checkout. The first turn fills the caches. */
async function takeTurns(name: string, checkouts: readonly Starts[]): Promise<readonly (readonly Taken[])[]> {
  const taken = checkouts.map((): Taken[] => [])
  for (let turn = 0; turn <= TURNS; turn++) {
    const order = [...checkouts.entries()]
    // They take turns at going first.
    if (turn % 2 === 1) order.reverse()
    for (const [at, starts] of order) {
      const one = await starts[name]?.()
      if (one && turn > 0) taken[at]?.push(one)
    }
  }
  return taken
}

function report(name: string, [own = [], other = []]: readonly (readonly Taken[])[]): object {
  const figures: Record<string, object> = {}
  for (const part of ['cpu', 'wall'] as const) {
    const middle = (taken: readonly Taken[]): number => Math.round(median(taken.map((one) => one[part])))
    const ratios = other.map((one, at) => (own[at]?.[part] ?? Number.NaN) / one[part]).sort((a, b) => a - b)
    const ratio = Number(median(ratios).toFixed(2))
    figures[part] = other.length > 0 ? { ratio, this: middle(own), other: middle(other) } : { this: middle(own) }
    const against =
      other.length > 0
        ? ` against ${middle(other)} ms: ${ratio.toFixed(2)}× (${ratios[0]?.toFixed(2)}–${ratios.at(-1)?.toFixed(2)})`
        : ' ms'
    console.log(`${name.padEnd(26)} ${part.padEnd(5)} ${middle(own)}${against}`)
  }
  return figures
}
