/** The hellos of joiners (SPEC.md, 6.3): when they are repeated, and which greeting answers them. */
import { StaticError } from '@static/protocol'
import { same } from '../platform/bytes.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { Join } from './join.ts'

const HELLO_MS = 2000
const LONGEST_HELLO_MS = 600_000
/** Every member reads every hello, so joiners of a large channel wait longer: N joiners together send N² copies. */
const MEMBERS_PER_HELLO = 16

/** How long an agent waits for the owner's greeting after `repeats` earlier hellos. */
export function helloDelayMs(repeats: number, members: number): number {
  const first = HELLO_MS * Math.max(1, members / MEMBERS_PER_HELLO)
  return Math.min(Math.round(first * 2 ** repeats), LONGEST_HELLO_MS)
}

/**
 * Sends a hello, unless an earlier one is still queued: the relay gets that one in the session that resumes the
 * channel.
 */
export async function sendHello(
  { sender }: Pick<AgentChannel, 'sender'>,
  join: Pick<Join, 'record' | 'isGreeting'>,
): Promise<boolean> {
  if (join.isGreeting) return false
  join.isGreeting = true
  try {
    await sender.send('hello', join.record.nonce)
  } catch (error) {
    // If a fork has just been found, everything stops. The next hello is still sent.
    if (StaticError.from(error).code !== 'fork_detected') throw error
  } finally {
    join.isGreeting = false
  }
  return true
}

/** Whether a greeting, a concatenation of nonces, answers this nonce. */
export function isAmong(nonce: Uint8Array, nonces: Uint8Array): boolean {
  for (let at = 0; at + nonce.length <= nonces.length; at += nonce.length) {
    if (same(nonce, nonces.subarray(at, at + nonce.length))) return true
  }
  return false
}
