/** What agents without MLS need to join with an invite. */
import { createHmac, randomBytes } from 'node:crypto'
import { joinProofBytes } from '@static/protocol'
import { type Agent, sha256 } from '@static/testkit/agent'

/** What an invite token says to the relay. */
export interface Token {
  readonly inviteId: Uint8Array
  readonly admissionKey: Uint8Array
}

export function makeToken(): Token {
  return { inviteId: new Uint8Array(randomBytes(16)), admissionKey: new Uint8Array(randomBytes(32)) }
}

/** The proof that an agent has the token, in a session. */
export function joinProof(
  { nonce, id }: { readonly nonce: Uint8Array | undefined; readonly id: Uint8Array },
  { inviteId, admissionKey }: Token,
  box: Uint8Array,
): Uint8Array {
  const sessionNonce = nonce ?? new Uint8Array()
  const claim = joinProofBytes({ sessionNonce, inviteId, agentId: id, boxHash: sha256(box) })
  return createHmac('sha256', admissionKey).update(claim).digest()
}

/** Asks to join. */
export function askToJoin(
  agent: Agent,
  token: Token,
  box: Uint8Array = randomBytes(100),
  proof: Uint8Array = joinProof({ nonce: agent.challenge?.nonce, id: agent.id }, token, box),
): Promise<unknown> {
  return agent.request('requestJoin', { inviteId: token.inviteId, box, proof })
}

/** Adds a joiner with a Welcome that names the invite. */
export function admitJoiner(
  agent: Agent,
  channelId: Uint8Array,
  slot: bigint,
  joiner: Uint8Array,
  { inviteId }: Token,
  tag: Uint8Array = randomBytes(32),
): Promise<unknown> {
  const messageId = randomBytes(16)
  const commit = randomBytes(100)
  const declaration = agent.declaration({ channelId, slot, messageId, commit }, { adds: [joiner] })
  const welcomes = [{ agentId: joiner, welcome: randomBytes(300), inviteId, tag }]
  return agent.request('sendCommit', { channelId, slot, messageId, commit, declaration, welcomes })
}
