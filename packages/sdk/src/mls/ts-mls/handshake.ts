/**
 * The handshake ratchets (RFC 9420, section 9.1), whose keys encrypt commits. A commit uses up one of its maker's
 * generations even if the relay refuses it, and the other members learn of that only from the maker's next accepted
 * commit. They then move the ratchet forward by that many steps, within a fixed bound, and a member stops well before
 * it: only its maker would adopt a commit beyond it. A new epoch resets all ratchets.
 */
import type { ClientState } from 'ts-mls'
import type { SenderData } from 'ts-mls/sender.js'
import { StaticError } from '@static/protocol'
import { nextSecret } from '../ratchet.ts'

/**
 * How far a commit may move its maker's ratchet. It is the same for all members, so that all reach the same result. The
 * steps are hashed before anything is authenticated; this many cost a few milliseconds, like the rest of a commit.
 */
const MAX_STEPS = 2048
/** How many commits a member makes in one epoch at most. */
const MOST_COMMITS = 1536

/** The number of commits that this agent has made in this epoch: the relay has accepted none of them. */
export function commitsMade(state: ClientState): number {
  return ratchetOf(state).generation
}

/**
 * Checks that the other members can still open a commit.
 *
 * @throws {StaticError} `unavailable`
 */
export function checkCommitsMade(state: ClientState, others: number): void {
  const made = commitsMade(state)
  // Only current members have to open it.
  if (others === 0 || made < MOST_COMMITS) return
  const text = `The relay has refused ${made} commits by this agent since the last group change. Other members could not decrypt many more, so this agent makes none.`
  throw StaticError.of('unavailable', `${text} Have another member replace its keys (\`rotate\`), then try again.`)
}

/** The state with the ratchet of a commit's sender at the generation of the commit. */
export function atGeneration(state: ClientState, { leafIndex, generation }: SenderData): ClientState {
  const node = 2 * leafIndex
  const own = state.secretTree[node]
  if (own === undefined) throw new TypeError(`The handshake ratchet of the sender, node ${node}, is missing.`)
  const { handshake } = own
  const steps = generation - handshake.generation
  if (steps > MAX_STEPS)
    throw new RangeError(`The commit is ${steps} generations ahead of its sender; at most ${MAX_STEPS} are allowed.`)
  let { secret } = handshake
  for (let step = handshake.generation; step < generation; step++) {
    const skipped = secret
    secret = nextSecret(secret, step)
    if (skipped !== handshake.secret) skipped.fill(0)
  }
  // For a past generation, the ratchet stays as it is, and the library refuses the commit.
  return steps > 0 ? withRatchet(state, node, secret, generation) : state
}

/** Advances this agent's ratchet: a second commit in this epoch must not use the key of the first. */
export function withHandshakeUsed(state: ClientState): ClientState {
  const { secret, generation } = ratchetOf(state)
  return withRatchet(state, 2 * state.privatePath.leafIndex, nextSecret(secret, generation), generation + 1)
}

function ratchetOf({ secretTree, privatePath }: ClientState): ClientState['secretTree'][number]['handshake'] {
  const node = 2 * privatePath.leafIndex
  const own = secretTree[node]
  if (own === undefined) throw new TypeError(`The handshake ratchet of this agent, node ${node}, is missing.`)
  return own.handshake
}

function withRatchet(state: ClientState, node: number, secret: Uint8Array, generation: number): ClientState {
  const own = state.secretTree[node]
  if (own === undefined) throw new TypeError(`The handshake ratchet of node ${node} is missing.`)
  const handshake = { secret, generation, unusedGenerations: {} }
  return { ...state, secretTree: state.secretTree.with(node, { ...own, handshake }) }
}
