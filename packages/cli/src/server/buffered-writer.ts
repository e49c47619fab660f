/** Log lines on their way to a file or a pipe, many in one write: each write there blocks the process. */
import { writeSync } from 'node:fs'
import type { WriteStream } from 'node:tty'

const WRITE_EVERY_MS = 50
const MOST_WAITING = 64 * 1024
/** Beyond this much that the reader has not taken, lines are dropped: the server matters more than its log. */
const MOST_UNREAD = 1024 * 1024

/**
 * A function that takes lines. A terminal gets each at once; nothing waits longer than the process lives. A reader that
 * goes away or falls behind loses lines, and nothing else happens.
 */
export function bufferedWriter(stream: WriteStream & { fd: number }): (line: string) => void {
  stream.on('error', () => {})
  if (stream.isTTY) return (line) => void stream.write(line)
  let waiting = ''
  let timer: NodeJS.Timeout | undefined
  const flush = (): void => {
    clearTimeout(timer)
    timer = undefined
    const lines = waiting
    waiting = ''
    if (lines !== '' && stream.writableLength < MOST_UNREAD) stream.write(lines)
  }
  process.on('exit', () => {
    try {
      if (waiting !== '') writeSync(stream.fd, waiting)
    } catch {
      // Nobody reads any more.
    }
  })
  return (line) => {
    waiting += line
    if (waiting.length >= MOST_WAITING) flush()
    else timer ??= setTimeout(flush, WRITE_EVERY_MS).unref()
  }
}
