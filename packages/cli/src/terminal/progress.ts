/** A spinner on the terminal for slow operations. */
import { styled } from './output.ts'

const AFTER_MS = 500
const EVERY_MS = 100
const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
const CLEAR_LINE = '\r\u001B[K'

/** Waits for the work; after half a second, shows on a terminal what it is waiting for. */
export async function withProgress<Result>(what: string, work: Promise<Result>): Promise<Result> {
  const { stderr } = process
  if (!stderr.isTTY) return await work
  let frame = 0
  const show = (): void => {
    stderr.write(`${CLEAR_LINE}${styled('cyan', FRAMES[frame++ % FRAMES.length] ?? '', stderr)} ${what} …`)
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
