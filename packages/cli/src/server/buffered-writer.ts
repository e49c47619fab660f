/** Batches log lines for a file or a pipe, where every write blocks the process. */
import { writeSync } from 'node:fs'
import type { WriteStream } from 'node:tty'

const WRITE_EVERY_MS = 50
const MOST_WAITING = 64 * 1024
/** With more unread bytes than this, lines are dropped: the server matters more than its log. */
const MOST_UNREAD = 1024 * 1024

/**
 * Returns a function that writes lines. A terminal gets each line immediately; everything buffered is written before
 * the process exits. A reader that disconnects or falls behind loses lines, with no other effect.
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
      // The reader is gone.
    }
  })
  return (line) => {
    waiting += line
    if (waiting.length >= MOST_WAITING) flush()
    else timer ??= setTimeout(flush, WRITE_EVERY_MS).unref()
  }
}
