/** Resource use of a long run, as numbers that must stay level: memory, descriptors, and the sizes of files. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** Values by name. */
export type Levels = Readonly<Record<string, number>>

const MIB = 1024 * 1024
/** Maximum growth after the warm-up. Database files grow in steps, and reuse what is freed later. */
const SLACK: readonly (readonly [name: RegExp, most: number])[] = [
  [/ memory$/, 64 * MIB],
  [/ descriptors$/, 16],
  [/ files$/, 24 * MIB],
]
/** The first and the last share of the samples after the warm-up, which are compared. */
const SHARE = 0.25

/** Memory and descriptors of a process. */
export function processLevels(name: string, pid: number): Levels {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return {
    [`${name} memory`]: Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0) * 1024,
    [`${name} descriptors`]: readdirSync(`/proc/${pid}/fd`).length,
  }
}

/** The bytes of all files below a directory. */
export function fileLevels(name: string, directory: string): Levels {
  let bytes = 0
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    // A file may be gone by now.
    if (entry.isFile()) bytes += statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.size ?? 0
  }
  return { [`${name} files`]: bytes }
}

/** How far each value rose from the beginning to the end of the samples, and whether that is too far. */
export function risesOf(samples: readonly Levels[]): { name: string; from: number; to: number; isLevel: boolean }[] {
  const count = Math.max(1, Math.floor(samples.length * SHARE))
  return Object.keys(samples[0] ?? {}).map((name) => {
    // Lowest to lowest: memory that a garbage collection or checkpoint will free is no leak.
    const lowest = (own: readonly Levels[]): number => Math.min(...own.map((sample) => sample[name] ?? 0))
    const [from, to] = [lowest(samples.slice(0, count)), lowest(samples.slice(-count))]
    const most = SLACK.find(([pattern]) => pattern.test(name))?.[1] ?? 0
    return { name, from, to, isLevel: to - from <= most }
  })
}
