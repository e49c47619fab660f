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

/** Asks to join. */
export function askToJoin(agent: Agent, { inviteId, admissionKey }: Token, box: Uint8Array): Promise<unknown> {
  const sessionNonce = agent.challenge?.nonce ?? new Uint8Array()
  const claim = joinProofBytes({ sessionNonce, inviteId, agentId: agent.id, boxHash: sha256(box) })
  const proof = createHmac('sha256', admissionKey).update(claim).digest()
  return agent.request('requestJoin', { inviteId, box, proof })
}

/** Adds a joiner with a Welcome that names the invite. */
export function admitJoiner(
  agent: Agent,
  channelId: Uint8Array,
  slot: bigint,
  joiner: Uint8Array,
  { inviteId }: Token,
): Promise<unknown> {
  const messageId = randomBytes(16)
  const commit = randomBytes(100)
  const declaration = agent.declaration({ channelId, slot, messageId, commit }, { adds: [joiner] })
  const welcomes = [{ agentId: joiner, welcome: randomBytes(300), inviteId, tag: randomBytes(32) }]
  return agent.request('sendCommit', { channelId, slot, messageId, commit, declaration, welcomes })
}
