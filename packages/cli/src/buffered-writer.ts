/** Log lines on their way to a file or a pipe, many in one write: each write there blocks the process. */
import { writeSync } from 'node:fs'
import type { WriteStream } from 'node:tty'

const WRITE_EVERY_MS = 50
const MOST_BYTES = 64 * 1024

/** A function that takes lines. A terminal gets each at once; nothing waits longer than the process lives. */
export function bufferedWriter(stream: WriteStream & { fd: number }): (line: string) => void {
  if (stream.isTTY) return (line) => void stream.write(line)
  let waiting = ''
  let timer: NodeJS.Timeout | undefined
  const flush = (): void => {
    clearTimeout(timer)
    timer = undefined
    const lines = waiting
    waiting = ''
    if (lines !== '') stream.write(lines)
  }
  process.on('exit', () => {
    if (waiting !== '') writeSync(stream.fd, waiting)
  })
  return (line) => {
    waiting += line
    if (waiting.length >= MOST_BYTES) flush()
    else timer ??= setTimeout(flush, WRITE_EVERY_MS).unref()
  }
}
