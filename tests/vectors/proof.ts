/** Proofs (7.1): the audience of a token, what the agent countersigns, and the entry of a revocation. */
import { channelId, guest, lengthPrefixed, number2, owner, run, sha256, signed } from './bytes.ts'

const salt = run(0x70, 16)
const AUDIENCE = 'static audience 1'
const REVOKED = 'static revoked 1'

const audience = {
  context: AUDIENCE,
  channel_id: channelId,
  agent_id: guest.agentId,
  salt,
  audience: `static:${sha256(lengthPrefixed([AUDIENCE, channelId, guest.agentId, salt])).toString('base64url')}`,
}

const proofs = [
  { about: 'a token of a member that the entry 300 added', kind: 1, jwt: 'aGVhZA.Ym9keQ.c2ln', place: 300 },
  {
    about: 'the statement of a domain, in a join box',
    kind: 2,
    jwt: 'a-_.b.c',
    place: sha256(Buffer.from('KeyPackage')),
  },
].map(({ about, kind, jwt, place }) => {
  const fields = [channelId, owner.agentId, guest.agentId, kind, salt, sha256(Buffer.from(jwt)), place]
  const result = signed(guest, 'static proof 1', fields)
  const head = [Buffer.of(1, kind), salt, number2(jwt.length), Buffer.from(jwt)]
  const proof = Buffer.concat([...head, result.signature])
  return { about, channel_id: channelId, owner: owner.agentId, kind, salt, jwt, place, ...result, proof }
})

const statementId = 'AAAAAAAAAAAAAAAAAAAAAA'
const revocation = {
  context: REVOKED,
  jti: statementId,
  entry: sha256(Buffer.from(`${REVOKED}${statementId}`))
    .subarray(0, 16)
    .toString('base64url'),
}

export const proofVectors: object = { audience, proofs, revocation }
