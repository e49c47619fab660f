/** How many of the waiting calls share one transaction. */
import type { Call } from './call.ts'

/** The most calls of a batch. */
export const BATCH_CALLS = 256
const BATCH_BYTES = 4_194_304
/** The weight of looking up one channel: 2,048 of them fill a batch. Without ids, their number is unknown. */
const NAME_BYTES = 2048
const NAMES_WITHOUT_IDS = 64

/** How many of the calls form one batch: at least one. Operations in `alone` share it with no other. */
export function batchLength(queue: readonly Call[], alone: ReadonlySet<Call['name']> = new Set()): number {
  let bytes = 0
  let length = 0
  for (const call of queue.slice(0, BATCH_CALLS)) {
    if (alone.has(call.name)) return Math.max(1, length)
    bytes += weigh(call)
    if (length > 0 && bytes > BATCH_BYTES) break
    length += 1
  }
  return length
}

/** The bytes that a call writes or asks for, or a number of bytes that takes as long. */
function weigh({ name, request }: Call): number {
  if (name === 'append') return request.ciphertext.length
  if (name === 'read' || name === 'welcomes' || name === 'takeJoins') return request.maxBytes
  if (name === 'resume') return (request.channels?.length ?? NAMES_WITHOUT_IDS) * NAME_BYTES
  if (name !== 'commit') return 0
  const { commit, groupInfo, welcomes } = request
  return welcomes.reduce((sum, { welcome }) => sum + welcome.length, commit.length + groupInfo.length)
}
