/** Usage of a process: CPU time by its own count, writing by the preloaded counter (disk.c). */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** CPU in milliseconds, all threads; flushes to disk; bytes written to files. */
export interface Usage {
  readonly cpu: number
  /** Undefined where nothing is counted. */
  readonly syncs: number | undefined
  readonly bytes: number | undefined
}

/** Usage of this process so far. */
export function ownUsage(): Usage {
  const { user, system } = process.cpuUsage()
  const cpu = (user + system) / 1000
  const directory = process.env['STATIC_DISK_COUNTS']
  if (directory === undefined) return { cpu, syncs: undefined, bytes: undefined }
  const counts = readFileSync(join(directory, String(process.pid)))
  return { cpu, syncs: Number(counts.readBigUInt64LE(0)), bytes: Number(counts.readBigUInt64LE(16)) }
}

/** Usage between two moments. */
export function since(before: Usage, after: Usage): Usage {
  const less = (a: number | undefined, b: number | undefined): number | undefined =>
    a === undefined || b === undefined ? undefined : a - b
  return {
    cpu: after.cpu - before.cpu,
    syncs: less(after.syncs, before.syncs),
    bytes: less(after.bytes, before.bytes),
  }
}

/** Sums the usage of several processes. */
export function sum(usages: readonly Usage[]): Usage {
  const add = (a: number | undefined, b: number | undefined): number | undefined =>
    a === undefined || b === undefined ? undefined : a + b
  return usages.reduce((all, one) => ({
    cpu: all.cpu + one.cpu,
    syncs: add(all.syncs, one.syncs),
    bytes: add(all.bytes, one.bytes),
  }))
}
