/** A spinner on the terminal for slow operations. */
import { CLEAR_LINE, note, readable, styled } from './output.ts'

const AFTER_MS = 500
const EVERY_MS = 100
/** How often a line is written when there is no terminal. */
const LINE_MS = 10_000
const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']

/**
 * Waits for the work. After half a second, shows on a terminal what it is waiting for. If `what` is a function, it
 * reports progress, which is also written to other streams as a line every ten seconds.
 */
export async function withProgress<Result>(what: string | (() => string), work: Promise<Result>): Promise<Result> {
  const { stderr } = process
  const text = typeof what === 'string' ? (): string => what : what
  if (!stderr.isTTY) {
    const lines = typeof what === 'string' ? undefined : setInterval(() => note(what()), LINE_MS)
    return await work.finally(() => clearInterval(lines))
  }
  let frame = 0
  const show = (): void => {
    stderr.write(`${CLEAR_LINE}${styled('cyan', FRAMES[frame++ % FRAMES.length] ?? '', stderr)} ${readable(text())} …`)
  }
  let ticking: NodeJS.Timeout | undefined
  const start = setTimeout(() => {
    show()
    ticking = setInterval(show, EVERY_MS)
  }, AFTER_MS)
  try {
    return await work
  } finally {
    clearTimeout(start)
    clearInterval(ticking)
    if (frame > 0) stderr.write(CLEAR_LINE)
  }
}
