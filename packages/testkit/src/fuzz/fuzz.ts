/**
 * Fuzzes a decoder: runs it on inputs that are made from a corpus, and keeps those that reach new code. A finding is
 * anything but a result or the decoder's own error, and any input that costs too much. `npm run proof -- fuzz` runs
 * longer, and adds to the corpora in lab/fuzz/corpus.
 */
import type { TestContext } from 'node:test'
import { getHeapStatistics } from 'node:v8'
import { StaticError } from '@static/protocol'
import { randomBelow, SEED } from '../random.ts'
import { readCorpus, saveCorpus } from './corpus.ts'
import { Coverage } from './coverage.ts'
import { mutate } from './mutate.ts'

/** A decoder and its first inputs. */
export interface FuzzTarget {
  /** Name of its corpus. */
  readonly name: string
  readonly seeds: readonly Uint8Array[]
  /** Parts that are hard to guess. */
  readonly words?: readonly (string | Uint8Array)[]
  /** May throw, or reject with, what `isRefusal` accepts. */
  readonly decode: (bytes: Uint8Array) => unknown
  /** Default: any StaticError. */
  readonly isRefusal?: (error: unknown) => boolean
}

/** Inputs of a run: few in `npm test`, without coverage; `STATIC_FUZZ=100000` uses it. */
const SHORT_RUNS = 600
const LONG_RUNS = Number(process.env['STATIC_FUZZ'] ?? 0)
const BATCH = 32
const MOST_INPUT_BYTES = 65_536
/** Limits on the cost of one input. */
const MOST_CPU_MS = 50
const MOST_MEMORY_BYTES = 64 * 1024 * 1024

/** From the beginning, or V8 would not count blocks. */
const coverage = LONG_RUNS > 0 ? new Coverage() : undefined

/** Statistics of the long form in this process. */
const total = { decoders: 0, blocks: 0 }
if (coverage)
  process.on('exit', (code) => {
    const { decoders, blocks } = total
    if (code !== 0 || decoders === 0) return
    process.stdout.write(
      `promise T12: ${decoders} decoders fuzzed with ${LONG_RUNS} inputs each, ${blocks} blocks of code, none over ${MOST_CPU_MS} ms or 64 MiB\n`,
    )
  })

const isStaticError = (error: unknown): boolean => error instanceof StaticError

/** Fuzzes a target. Throws at the first finding, with the input. */
export async function fuzz(t: TestContext, target: FuzzTarget): Promise<void> {
  const below = randomBelow(SEED)
  const words = (target.words ?? []).map((word) => Uint8Array.from(Buffer.from(word)))
  const corpus = [...readCorpus(target.name), ...target.seeds]
  for (const input of corpus) await runOnce(target, input)
  const next = (): Uint8Array => mutate(below, corpus, words, MOST_INPUT_BYTES)
  if (!coverage) {
    for (let run = 0; run < SHORT_RUNS; run++) await runOnce(target, next())
    t.diagnostic(`seed ${SEED}, ${SHORT_RUNS} inputs`)
    return
  }
  coverage.clear()
  for (let run = 0; run < LONG_RUNS; run += BATCH) {
    const inputs =
      run === 0 ? corpus.splice(0).sort((a, b) => a.length - b.length) : Array.from({ length: BATCH }, next)
    for (const input of inputs) await runOnce(target, input)
    const isNew = coverage.take().length > 0
    if (run > 0 && !isNew) continue
    // One of them has reached something new.
    for (const input of inputs) {
      await runOnce(target, input)
      const found = coverage.take()
      if (found.length === 0) continue
      coverage.keep(found)
      corpus.push(input)
    }
  }
  saveCorpus(target.name, corpus)
  t.diagnostic(`seed ${SEED}, ${LONG_RUNS} inputs, ${coverage.blocks} blocks, ${corpus.length} inputs kept`)
  total.decoders++
  total.blocks += coverage.blocks
}

async function runOnce(target: FuzzTarget, input: Uint8Array): Promise<void> {
  if ((await costOf(target, input)) <= MOST_CPU_MS) return
  // A pause of the garbage collector or compiler does not repeat.
  const again = [await costOf(target, input), await costOf(target, input), await costOf(target, input)]
  const least = Math.min(...again)
  if (least > MOST_CPU_MS) throw finding(target, input, `takes ${least.toFixed(1)} ms`)
}

/** Runs it, and returns the milliseconds of CPU that it took. */
async function costOf(target: FuzzTarget, input: Uint8Array): Promise<number> {
  const { isRefusal = isStaticError } = target
  const memory = memoryUsed()
  const before = process.threadCpuUsage()
  try {
    // A copy: a decoder may keep or change its input.
    await target.decode(Uint8Array.from(input))
  } catch (error) {
    if (!isRefusal(error)) throw finding(target, input, `throws ${String(error)}`, error)
  }
  const { user, system } = process.threadCpuUsage(before)
  const used = memoryUsed() - memory
  if (used > MOST_MEMORY_BYTES) throw finding(target, input, `uses ${used} bytes`)
  return (user + system) / 1000
}

function memoryUsed(): number {
  const { used_heap_size: heap, external_memory: external } = getHeapStatistics()
  return heap + external
}

function finding({ name }: FuzzTarget, input: Uint8Array, what: string, cause?: unknown): Error {
  const shown = Buffer.from(input).toString('hex')
  const text = shown.length > 4000 ? `${shown.slice(0, 4000)}… (${input.length} bytes)` : shown
  return new Error(`${name} ${what} (STATIC_SEED=${SEED}): ${text}`, { cause })
}
