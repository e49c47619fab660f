/** Searches the memory of a process, as root or its owner may read it. */
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'

const CHUNK = 8 * 1024 * 1024

/** How often any of the patterns occurs in the readable memory of a process. */
export function countInMemory(pid: number, patterns: readonly Buffer[]): number {
  const memory = openSync(`/proc/${pid}/mem`, 'r')
  const overlap = Math.max(...patterns.map(({ length }) => length)) - 1
  const buffer = Buffer.alloc(CHUNK + overlap)
  let count = 0
  try {
    for (const { from, to } of regionsOf(pid)) {
      for (let at = from; at < to; at += CHUNK) {
        const size = Math.min(CHUNK + overlap, to - at)
        const read = readSome(memory, buffer, size, at)
        for (const pattern of patterns) count += countIn(buffer.subarray(0, read), pattern, CHUNK)
      }
    }
  } finally {
    closeSync(memory)
    buffer.fill(0)
  }
  return count
}

/** How often a pattern begins in the first `within` bytes. */
export function countIn(bytes: Buffer, pattern: Buffer, within: number = bytes.length): number {
  let count = 0
  for (let at = bytes.indexOf(pattern); at >= 0 && at < within; at = bytes.indexOf(pattern, at + 1)) count++
  return count
}

/** The readable mappings, without the kernel's own pages. */
function regionsOf(pid: number): { readonly from: number; readonly to: number }[] {
  const lines = readFileSync(`/proc/${pid}/maps`, 'latin1').split('\n')
  return lines.flatMap((line) => {
    const found = /^([0-9a-f]+)-([0-9a-f]+) r\S+ \S+ \S+ \S+ *(.*)$/.exec(line)
    if (!found || /^\[v(?:var|vdso|syscall)/.test(found[3] ?? '')) return []
    const [, from = '', to = ''] = found
    return [{ from: Number.parseInt(from, 16), to: Number.parseInt(to, 16) }]
  })
}

/** Pages that are mapped but not there cannot be read, and hold nothing. */
function readSome(memory: number, buffer: Buffer, size: number, at: number): number {
  try {
    return readSync(memory, buffer, 0, size, at)
  } catch {
    return 0
  }
}
