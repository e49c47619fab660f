/** Approvals: what is hashed and signed, and what the frames say (SPEC.md, 5.1 and 5.11). */
import { channelId, guest, lengthPrefixed, number8, owner, run, sha256, signed } from './bytes.ts'

const CONTEXT = 'static approval 1'
const sorted = (...agents: readonly Buffer[]): Buffer[] => agents.toSorted((one, other) => Buffer.compare(one, other))

const asked = [
  {
    about: 'a deploy that the guest must approve',
    deadline: 1_800_000_000_000,
    need: 1,
    from: [guest.agentId],
    title: 'Deploy 1.4.2',
    text: 'All tests pass.',
    risk: 'high',
    action: Buffer.from('{"deploy":"1.4.2"}'),
  },
  {
    about: 'a request without words to two of three agents',
    deadline: 1_800_000_060_000,
    need: 2,
    from: sorted(guest.agentId, run(0x40, 32), run(0xc0, 32)),
    title: 'Lösche \u202eevil',
    text: '',
    risk: '',
    action: run(0, 40),
  },
]

interface ApprovalVector {
  readonly about: string
  readonly bytes: Buffer
  readonly hash: Buffer
}

export const approvalVectors: readonly ApprovalVector[] = asked.map(({ about, ...fields }, at) => {
  const { deadline, need, from, title, text, risk, action } = fields
  const requestId = run(0x50 + at, 16)
  const who = [channelId, owner.agentId, requestId]
  const bytes = lengthPrefixed([CONTEXT, ...who, deadline, need, from, title, text, risk, action])
  const names = { context: CONTEXT, channel_id: channelId, asker: owner.agentId, request_id: requestId }
  return { about, ...names, ...fields, bytes, hash: sha256(bytes) }
})

interface DecisionVector {
  readonly about: string
  readonly decision: Buffer
}

export const decisionVectors: readonly DecisionVector[] = [
  { about: 'the guest approves, with its passphrase', choice: 1, time: 1_799_999_990_000, attended: 1 },
  { about: 'the guest denies', choice: 2, time: 1_799_999_991_000, attended: 0 },
].map(({ about, ...fields }) => {
  const { choice, time, attended } = fields
  const hash = approvalVectors[0]?.hash ?? Buffer.alloc(0)
  const made = signed(guest, 'static decision 1', [hash, guest.agentId, choice, time, attended])
  const decision = Buffer.concat([hash, Buffer.of(choice), number8(time), Buffer.of(attended), made.signature])
  return { about, hash, ...fields, public_key: guest.publicKey, ...made, decision }
})
