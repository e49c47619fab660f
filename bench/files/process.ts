/** CPU time and memory of a process, as the kernel counts them. */
import { readFileSync, writeFileSync } from 'node:fs'

const TICK_MS = 10
const KIB = 1024

/** CPU milliseconds of a process so far, all threads. */
export function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS
}

/** Its memory now, in MiB. From now on, `peakOf` counts. */
export function memoryOf(pid: number): number {
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
  return field(pid, 'VmRSS')
}

/** The most memory that it has had since, in MiB. */
export function peakOf(pid: number): number {
  return field(pid, 'VmHWM')
}

function field(pid: number, name: string): number {
  const found = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number(found?.[1]) / KIB
}
