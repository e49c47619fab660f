/**
 * Records what a process does to the files of a directory, and its output, as one sequence of events: the system calls
 * that strace sees. `disk.ts` can then compute the result of a power cut at every moment.
 */
import { spawn } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { createInterface } from 'node:readline'

/** The events, in order. */
export type DiskEvent =
  | { readonly type: 'create' | 'remove' | 'truncated'; readonly path: string }
  | { readonly type: 'write'; readonly path: string; readonly at: number; readonly bytes: Buffer }
  | { readonly type: 'resize'; readonly path: string; readonly size: number }
  | { readonly type: 'sync'; readonly path: string }
  | { readonly type: 'rename' | 'link'; readonly path: string; readonly to: string }
  /** A line on stdout. */
  | { readonly type: 'said'; readonly line: string }

const CALLS = [
  'openat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,fallocate,copy_file_range',
  'fsync,fdatasync,sync_file_range,rename,renameat,renameat2,unlink,unlinkat,link,linkat,lseek',
].join(',')
/** Longer writes would be cut off in the log. */
const MAX_WRITE_BYTES = 4 * 1024 * 1024

/**
 * Runs a Node program under strace until `isEnough` says so of a line on its stdout, then kills it. Returns its
 * actions below `directory`.
 */
export async function recordDisk(
  strace: string,
  words: readonly string[],
  directory: string,
  isEnough: (line: string) => boolean,
): Promise<DiskEvent[]> {
  const log = `${directory}.strace`
  const flags = [
    '-f',
    '-y',
    '-xx',
    '-s',
    String(MAX_WRITE_BYTES),
    '-e',
    `trace=${CALLS}`,
    '-e',
    'signal=none',
    '-o',
    log,
  ]
  const child = spawn(strace, [...flags, process.execPath, ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    // Calls through io_uring would not be seen.
    env: { ...process.env, UV_USE_IO_URING: '0' },
    detached: true,
  })
  let complaint = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (complaint += text))
  let enough = false
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (enough || !isEnough(line) || child.pid === undefined) return
    enough = true
    process.kill(-child.pid, 'SIGKILL')
  })
  await new Promise((resolve) => child.on('close', resolve))
  if (!enough) throw new Error(`The recorded program ended by itself: ${complaint}`)
  try {
    return parseLog(readFileSync(log, 'latin1'), directory)
  } finally {
    rmSync(log)
  }
}

/** The events in a log of strace, for files below a directory. */
function parseLog(log: string, directory: string): DiskEvent[] {
  const events: DiskEvent[] = []
  const unfinished = new Map<string, string>()
  const offsets = new Map<string, number>()
  for (const line of log.split('\n')) {
    const [, pid = '', rest = ''] = /^(\d+) +(.*)$/.exec(line) ?? []
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(rest)
    if (rest.endsWith(' <unfinished ...>')) {
      unfinished.set(pid, rest.slice(0, -' <unfinished ...>'.length))
      continue
    }
    const call = resumed ? (unfinished.get(pid) ?? '') + (resumed[1] ?? '') : rest
    const found = /^(\w+)\((.*)\) += (-?\d+|\?)/.exec(call)
    if (!found || Number(found[3]) < 0 || found[3] === '?') continue
    const [, name = '', argument = '', result = ''] = found
    for (const event of eventsOf(name, argument, result + call.slice(found[0].length), offsets)) {
      if (event.type === 'said' || event.path === directory || event.path.startsWith(`${directory}/`))
        events.push(event)
    }
  }
  return events
}

/** The effect of a successful call. `offsets` are those of files that are written without one. */
function eventsOf(name: string, argument: string, result: string, offsets: Map<string, number>): DiskEvent[] {
  const file = /^(\d+)<((?:\\x[0-9a-f]{2})*|[^>]*)>/.exec(argument)
  const path = plain(file?.[2] ?? '')
  const strings = [...argument.matchAll(/"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?/g)].map(([, hex = '', cut]) => {
    if (cut !== undefined) throw new Error(`A write to ${path} has more than ${MAX_WRITE_BYTES} bytes.`)
    return bytesOf(hex)
  })
  const first = strings[0] ?? Buffer.alloc(0)
  switch (name) {
    case 'openat': {
      const opened = plain(/<((?:\\x[0-9a-f]{2})*|[^>]*)>/.exec(result)?.[1] ?? '')
      offsets.set(opened, 0)
      const created: DiskEvent[] = argument.includes('O_CREAT') ? [{ type: 'create', path: opened }] : []
      if (/O_(?:D)?SYNC/.test(argument)) throw new Error(`${opened} is opened with O_SYNC, which is not modelled.`)
      return argument.includes('O_TRUNC') ? [...created, { type: 'truncated', path: opened }] : created
    }
    case 'write': {
      if (file?.[1] === '1') {
        return first
          .toString()
          .split('\n')
          .filter(Boolean)
          .map((line) => ({ type: 'said', line }))
      }
      const at = offsets.get(path) ?? 0
      offsets.set(path, at + first.length)
      return [{ type: 'write', path, at, bytes: first }]
    }
    case 'pwrite64':
      return [{ type: 'write', path, at: Number(argument.slice(argument.lastIndexOf(',') + 1)), bytes: first }]
    case 'ftruncate':
      return [{ type: 'resize', path, size: Number(argument.slice(argument.lastIndexOf(',') + 1)) }]
    case 'fallocate': {
      const [, , offset, length] = argument.split(', ')
      return [{ type: 'resize', path, size: -(Number(offset) + Number(length)) }]
    }
    case 'fsync':
    case 'fdatasync':
      return [{ type: 'sync', path }]
    case 'link':
    case 'rename':
      return [{ type: name, path: first.toString(), to: (strings[1] ?? first).toString() }]
    case 'unlink':
      return [{ type: 'remove', path: first.toString() }]
    case 'lseek':
      offsets.set(path, Number.parseInt(result, 10))
      return []
    default:
      throw new Error(`The call ${name} on ${path || first.toString()} is not modelled.`)
  }
}

/** With -xx, strace writes even paths as bytes. */
function plain(text: string): string {
  return text.startsWith('\\x') ? bytesOf(text).toString() : text
}

function bytesOf(hex: string): Buffer {
  return Buffer.from(hex.replaceAll('\\x', ''), 'hex')
}
