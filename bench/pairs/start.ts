/** Starts the sides of the paired bench. */
import { type ChildProcess, fork, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Burst, Cost, Place, Ready, Way } from './messages.ts'

/** Longer than stamps wait before they are written. */
const STAMPS_MS = 300
const COMPILER = '/usr/bin/cc'

/** A system out of one checkout, warm and waiting for bursts. */
export interface Side {
  readonly commit: string
  readonly ways: readonly Way[]
  run(burst: Burst): Promise<Cost>
  /** All stamps so far, by the role of their process. */
  stamps(): Promise<ReadonlyMap<string, readonly string[]>>
  stop(): Promise<void>
}

/** Compiles the counter of flushes and written bytes. Undefined without a compiler. */
export function compileCounter(directory: string): string | undefined {
  const counter = join(directory, 'disk.so')
  const words = ['-shared', '-fPIC', '-O2', '-o', counter, join(import.meta.dirname, 'disk.c'), '-ldl']
  return spawnSync(COMPILER, words, { stdio: ['ignore', 'ignore', 'inherit'] }).status === 0 ? counter : undefined
}

/** Starts a system from a copy of this folder inside the checkout, so that it finds the packages there. */
export async function startSide(
  name: string,
  checkout: string,
  options: { readonly directory: string; readonly counter: string | undefined; readonly withHops: boolean },
): Promise<Side> {
  const copy = join(checkout, '.cache/pairs')
  cpSync(import.meta.dirname, copy, { recursive: true, force: true })
  const place: Place = { checkout, directory: join(options.directory, name) }
  const hops = join(options.directory, `${name}-hops`)
  const counts = join(options.directory, `${name}-counts`)
  for (const folder of [place.directory, hops, counts]) mkdirSync(folder)
  const counting = options.counter === undefined ? {} : { LD_PRELOAD: options.counter, STATIC_DISK_COUNTS: counts }
  const stamping = options.withHops ? { STATIC_HOPS: hops, STATIC_HOPS_ROLE: 'writer' } : {}
  const side = fork(join(copy, 'side.ts'), [JSON.stringify(place)], {
    cwd: checkout,
    execArgv: ['--import', join(copy, 'probe.ts')],
    // Stamped code must not get into the user's code cache.
    env: { ...process.env, ...counting, ...stamping, XDG_CACHE_HOME: place.directory },
  })
  const { ways } = (await next(side)) as Ready
  return {
    commit: spawnSync('git', ['-C', checkout, 'describe', '--always', '--dirty']).stdout.toString().trim(),
    ways,
    async run(burst) {
      side.send(burst)
      return (await next(side)) as Cost
    },
    async stamps() {
      await delay(STAMPS_MS)
      const found = new Map<string, string[]>()
      for (const file of readdirSync(hops)) {
        const role = file.split('-')[0] ?? ''
        const lines = readFileSync(join(hops, file), 'utf8').trimEnd().split('\n')
        found.set(role, [...(found.get(role) ?? []), ...lines])
      }
      return found
    },
    async stop() {
      if (side.exitCode !== null) return
      const ended = once(side, 'exit')
      side.disconnect()
      await ended
    },
  }
}

async function next(side: ChildProcess): Promise<unknown> {
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
