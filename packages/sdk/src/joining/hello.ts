/** The hellos of joiners (SPEC.md, 6.3): when they are repeated, and what answers them. */
import { StaticError } from '@static/protocol'
import { same } from '../platform/bytes.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { Join } from './join.ts'

const HELLO_MS = 2000
const LONGEST_HELLO_MS = 600_000
/** Every member reads every hello, so joiners of a large channel wait longer: together they repeat N² of them. */
const MEMBERS_PER_HELLO = 16

/** How long an agent waits for the owner's greeting after it has said hello `repeats` times before. */
export function helloDelayMs(repeats: number, members: number): number {
  const first = HELLO_MS * Math.max(1, members / MEMBERS_PER_HELLO)
  return Math.min(Math.round(first * 2 ** repeats), LONGEST_HELLO_MS)
}

/** Sends a hello, unless one from before is still to be sent: then the relay gets it in the session that resumes the channel. */
export async function sendHello(
  { sender }: Pick<AgentChannel, 'sender'>,
  join: Pick<Join, 'record' | 'isGreeting'>,
): Promise<boolean> {
  if (join.isGreeting) return false
  join.isGreeting = true
  try {
    await sender.send('hello', join.record.nonce)
  } catch (error) {
    // A fork that is found just now stops everything. The next hello is sent all the same.
    if (StaticError.from(error).code !== 'fork_detected') throw error
  } finally {
    join.isGreeting = false
  }
  return true
}

/** Whether a nonce is one of those that a greeting answers, one after the other. */
export function isAmong(nonce: Uint8Array, nonces: Uint8Array): boolean {
  for (let at = 0; at + nonce.length <= nonces.length; at += nonce.length) {
    if (same(nonce, nonces.subarray(at, at + nonce.length))) return true
  }
  return false
}
