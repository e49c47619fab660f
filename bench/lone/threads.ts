/** CPU time and switches of context of processes and their threads, as the kernel counts them. */
import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'

interface Thread {
  readonly name: string
  readonly nanoseconds: number
  readonly switches: number
}

/** A process at one moment. */
export interface Moment {
  readonly title: string
  readonly threads: ReadonlyMap<number, Thread>
}

/** What a process has cost since. */
export interface Cost {
  readonly title: string
  readonly cpuMs: number
  /** The threads that cost most. */
  readonly threads: readonly { readonly name: string; readonly cpuMs: number; readonly switches: number }[]
}

const MOST_THREADS = 8
/** Below this, a thread or process is left out. */
const LEAST_MS = 0.02

/** All processes that this one has started, directly or not, by their ids. */
export function processesBelow(root: number): ReadonlyMap<number, Moment> {
  const parents = new Map<number, number>()
  for (const entry of readdirSync('/proc')) {
    const pid = Number(entry)
    const fields = Number.isInteger(pid) ? lookAt(`/proc/${pid}/stat`)?.split(') ').at(-1)?.split(' ') : undefined
    if (fields) parents.set(pid, Number(fields[1]))
  }
  const found = new Map<number, Moment>()
  for (const pid of parents.keys()) {
    let parent = parents.get(pid)
    while (parent !== undefined && parent !== root) parent = parents.get(parent)
    if (parent === root) found.set(pid, { title: titleOf(pid), threads: threadsOf(pid) })
  }
  return found
}

/** What the processes that run at both moments have cost between them, for each of `count`. */
export function costOf(
  before: ReadonlyMap<number, Moment>,
  after: ReadonlyMap<number, Moment>,
  count: number,
  names: ReadonlyMap<number, string>,
): Cost[] {
  const costs: Cost[] = []
  for (const [pid, { title, threads: now }] of after) {
    const then = before.get(pid)?.threads
    const threads = [...now].map(([id, { name, nanoseconds, switches }]) => {
      const was = then?.get(id)
      const cpuMs = (nanoseconds - (was?.nanoseconds ?? 0)) / 1e6 / count
      return { name, cpuMs, switches: Number(((switches - (was?.switches ?? 0)) / count).toFixed(1)) }
    })
    const cpuMs = threads.reduce((sum, thread) => sum + thread.cpuMs, 0)
    if (cpuMs < LEAST_MS) continue
    const top = threads.filter((thread) => thread.cpuMs >= LEAST_MS).toSorted((one, other) => other.cpuMs - one.cpuMs)
    const rounded = top.slice(0, MOST_THREADS).map((thread) => ({ ...thread, cpuMs: round(thread.cpuMs) }))
    costs.push({ title: names.get(pid) ?? title, cpuMs: round(cpuMs), threads: rounded })
  }
  return costs
}

function round(value: number): number {
  return Number(value.toFixed(2))
}

function threadsOf(pid: number): ReadonlyMap<number, Thread> {
  const threads = new Map<number, Thread>()
  for (const entry of readdirSync(`/proc/${pid}/task`)) {
    const folder = `/proc/${pid}/task/${entry}`
    const [name, schedule, status] = ['comm', 'schedstat', 'status'].map((file) => lookAt(`${folder}/${file}`))
    // It has ended meanwhile.
    if (name === undefined || schedule === undefined || status === undefined) continue
    const switches = [...status.matchAll(/ctxt_switches:\s+(\d+)/g)].reduce((sum, [, times]) => sum + Number(times), 0)
    threads.set(Number(entry), { name: name.trim(), nanoseconds: Number(schedule.split(' ')[0]), switches })
  }
  return threads
}

/** The program's last word that is a file, or its name. */
function titleOf(pid: number): string {
  const words = lookAt(`/proc/${pid}/cmdline`)?.split('\0') ?? []
  return basename(words.find((word) => /\.(ts|js|py)$/.test(word)) ?? words[0] ?? String(pid))
}

function lookAt(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}
