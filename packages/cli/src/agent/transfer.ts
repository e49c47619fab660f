/** Waits for a transfer of a file, with a bar on a terminal. */
import { StaticError } from '@static/protocol'
import { CLEAR_LINE, readable, styled } from '../terminal/output.ts'
import type { TransferState } from './file-actions.ts'
import type { OpenAgent } from './open.ts'

/** How long one question about a transfer waits. */
const WAIT_S = 5
const BAR_WIDTH = 24
/** The bar changes at most so often. */
const EVERY_MS = 100

/** Follows a transfer to its end. When `signal` is aborted, it is cancelled. */
export async function followTransfer(
  agent: OpenAgent,
  id: string,
  { doing, signal }: { readonly doing?: string; readonly signal?: AbortSignal },
): Promise<NonNullable<TransferState['done']>> {
  const { stderr } = process
  const isShown = doing !== undefined && stderr.isTTY
  let shownAt = -Infinity
  try {
    for (let known = 0; ;) {
      const state = await agent.call('transfer', id, known, WAIT_S)
      if (state.done) return state.done
      if (signal?.aborted) {
        await agent.call('cancelTransfer', id)
        throw StaticError.of('cancelled', 'The transfer took longer than --timeout. It was stopped.')
      }
      known = state.bytes
      const now = performance.now()
      if (isShown && now - shownAt >= EVERY_MS) {
        shownAt = now
        stderr.write(`${CLEAR_LINE}${readable(doing)} ${bar(state)}`)
      }
    }
  } finally {
    if (isShown && shownAt > -Infinity) stderr.write(CLEAR_LINE)
  }
}

/** `████░░░░  42 %  13 of 31 MiB`. */
function bar({ bytes, size }: TransferState): string {
  const share = size === 0 ? 0 : bytes / size
  const full = Math.floor(share * BAR_WIDTH)
  const blocks = styled('cyan', '█'.repeat(full), process.stderr) + '░'.repeat(BAR_WIDTH - full)
  return `${blocks} ${String(Math.floor(share * 100)).padStart(3)} %  ${byteText(bytes)} of ${byteText(size)}`
}

/** A number of bytes for people. */
export function byteText(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB']
  let [value, unit] = [bytes, 0]
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : Number(value.toFixed(1))} ${units[unit]}`
}
