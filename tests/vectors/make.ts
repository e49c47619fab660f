/**
 * Makes the vectors of everything that is signed, hashed, derived or framed: `node tests/vectors/make.ts` writes the JSON
 * files beside this one. Byte strings are hex; texts and numbers are themselves. The bytes are made with Node's
 * cryptography alone and by the words of SPEC.md, so that they depend on no code of ours.
 */
import { hkdfSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import {
  channelId,
  type Field,
  gcm,
  guest,
  hmac,
  idOf,
  lengthPrefixed,
  number2,
  number4,
  number8,
  owner,
  run,
  sha256,
  signed,
  signedBytes,
  text,
} from './bytes.ts'
import { approvalVectors, decisionVectors } from './approval.ts'
import { fileVectors } from './file.ts'
import { proofVectors } from './proof.ts'
import { proofBoxes } from './proof-box.ts'
import { sealedWelcomes } from './sealed-welcome.ts'

const messageId = idOf(0x40)

// ---- Sessions (3.3) ----

interface Opening {
  readonly about: string
  readonly purpose: string
  readonly profile: string
  readonly cells_per_second: number
  readonly jwt: string
}

const openings: readonly Opening[] = [
  { about: 'a session of an account', purpose: 'session', profile: 'standard', cells_per_second: 0, jwt: 'a.b.c' },
  { about: 'a session of a guest', purpose: 'session', profile: 'private', cells_per_second: 0, jwt: '' },
  { about: 'strict, at its default rate', purpose: 'session', profile: 'strict', cells_per_second: 0, jwt: 'a.b.c' },
  { about: 'strict, at a rate of its own', purpose: 'session', profile: 'strict', cells_per_second: 16, jwt: 'a.b.c' },
  { about: 'a token for unary calls', purpose: 'unary', profile: 'off', cells_per_second: 0, jwt: 'a.b.c' },
  { about: 'a new JWT', purpose: 'refresh', profile: 'standard', cells_per_second: 0, jwt: 'd.e.f' },
]

const sessions = openings.map((opening) => {
  const place = { revision: 2, relay_name: 'relay.example', relay_id: run(1, 32) }
  const nonces = { relay_nonce: run(0x80, 32), agent_nonce: run(0xc0, 32) }
  const jwtHash = opening.jwt === '' ? Buffer.alloc(32) : sha256(Buffer.from(opening.jwt))
  const rate = opening.cells_per_second === 0 ? '' : `/${opening.cells_per_second}`
  const fields = [
    opening.purpose,
    place.revision,
    place.relay_name,
    place.relay_id,
    nonces.relay_nonce,
    nonces.agent_nonce,
    jwtHash,
    `${opening.profile}${rate}`,
  ]
  return { ...opening, ...place, ...nonces, ...signed(owner, 'static-relay/1 session', fields) }
})

// ---- The log (3.4): Leave, declaration, bodies, chain ----

interface Notice {
  readonly public_key: Buffer
  readonly slot: number
  readonly leaf_keys: readonly Buffer[]
  readonly signature: Buffer
}

const leaves = [
  { about: 'one key', slot: 7, leaf_keys: [run(0x20, 32)] },
  { about: 'two keys, while a commit is unanswered', slot: 8, leaf_keys: [run(0x20, 32), run(0x60, 32)] },
].map(({ about, slot, leaf_keys }) => {
  const result = signed(guest, 'static-relay/1 leave', [channelId, slot, leaf_keys])
  const notice: Notice = { public_key: guest.publicKey, slot, leaf_keys, signature: result.signature }
  return {
    about,
    channel_id: channelId,
    slot,
    leaf_keys,
    ...result,
    notice,
    body: lengthPrefixed(noticeFields(notice)),
  }
})

function noticeFields(notice: Notice): Field[] {
  return [notice.public_key, notice.slot, notice.leaf_keys, notice.signature]
}

interface Change {
  readonly about: string
  readonly adds: readonly Buffer[]
  readonly removes: readonly Buffer[]
  readonly leave_notices: readonly Notice[]
  readonly vouches: readonly Buffer[]
  /** Who owns the channel afterwards, and its standby. */
  readonly ownership?: readonly [owner: Buffer, standby: Buffer]
  readonly by?: typeof guest
}

const NO_ONE = Buffer.alloc(0)
const changes: readonly Change[] = [
  { about: 'a new key, and no change', adds: [], removes: [], leave_notices: [], vouches: [] },
  {
    about: 'two adds, with a vouch for one of them',
    adds: [guest.agentId, run(3, 32)],
    removes: [],
    leave_notices: [],
    vouches: [run(3, 32)],
  },
  {
    about: 'an add, a remove and a leaver',
    adds: [run(3, 32)],
    removes: [run(5, 32), guest.agentId],
    leave_notices: leaves.slice(0, 1).map(({ notice }) => notice),
    vouches: [],
  },
  {
    about: 'the owner names a standby',
    adds: [],
    removes: [],
    leave_notices: [],
    vouches: [],
    ownership: [owner.agentId, guest.agentId],
  },
  {
    about: 'the standby takes the channel over',
    adds: [],
    removes: [],
    leave_notices: [],
    vouches: [],
    ownership: [guest.agentId, NO_ONE],
    by: guest,
  },
]

const commits = changes.map(({ about, adds, removes, leave_notices, vouches, ownership, by = owner }, at) => {
  const commit = run(0xa0, 20 + at)
  const slot = 9 + at
  const [newOwner, standby] = ownership ?? [NO_ONE, NO_ONE]
  const change: Field[] = [adds, removes, leave_notices.map(noticeFields), vouches, newOwner, standby]
  const place = [channelId, slot, messageId, sha256(commit)]
  const result = signed(by, 'static-relay/1 commit', [...place, ...change])
  const body = lengthPrefixed([commit, ...change, result.signature])
  const inputs = { channel_id: channelId, slot, message_id: messageId, commit, adds, removes, leave_notices, vouches }
  return { about, ...inputs, owner: newOwner, standby, ...result, body }
})

const steps = [
  { kind: 'commit', sender: owner.agentId, message_id: messageId, body: commits[0]?.body ?? Buffer.alloc(0) },
  { kind: 'message', sender: guest.agentId, message_id: idOf(0x50), body: run(0, 64) },
  { kind: 'leave', sender: guest.agentId, message_id: Buffer.alloc(0), body: leaves[0]?.body ?? Buffer.alloc(0) },
]

const LOG = 'static log 1'
const start = sha256(lengthPrefixed([LOG, channelId]))
let hash = start
const chained = steps.map((step, at) => {
  const fields = [LOG, hash, step.kind, step.sender, step.message_id, sha256(step.body)]
  hash = sha256(lengthPrefixed(fields))
  return { index: at + 1, ...step, hash }
})
const chain = { context: LOG, channel_id: channelId, start, entries: chained }

const rosters = [
  { about: 'the owner alone', agent_ids: [owner.agentId], vouched: [] },
  {
    about: 'three members, with a vouch for one of them',
    agent_ids: [owner.agentId, guest.agentId, run(3, 32)],
    vouched: [guest.agentId],
  },
].map(({ about, agent_ids, vouched }) => {
  const inputs = { channel_id: channelId, slot: 12, index: 300, hash: start, agent_ids, vouched }
  const fields = [channelId, inputs.slot, inputs.index, start, agent_ids, vouched]
  return { about, ...inputs, ...signed(owner, 'static-relay/1 roster', fields) }
})

const vouches = [
  { about: 'a vouch for one member', agent_ids: [guest.agentId] },
  { about: 'a vouch for two members', agent_ids: [guest.agentId, run(3, 32)] },
].map(({ about, agent_ids }) => {
  const inputs = { channel_id: channelId, slot: 12, agent_ids }
  return { about, ...inputs, ...signed(owner, 'static-relay/1 vouch', [channelId, inputs.slot, agent_ids]) }
})

// ---- Receipts (3.11) ----

const MODES = ['off', 'delivered', 'settled']
const receipts = [
  { about: 'no receipts from this member', mode: 'off', since: 1, index: 300, aside: 0, settled: 0 },
  { about: 'everything since the add is received', mode: 'delivered', since: 1, index: 300, aside: 0, settled: 0 },
  { about: 'a message is not settled yet', mode: 'settled', since: 1, index: 300, aside: 0, settled: 290 },
  { about: 'after a gap, with a message put aside', mode: 'settled', since: 250, index: 300, aside: 280, settled: 300 },
].map(({ about, mode, since, index, aside, settled }) => {
  const fields = [channelId, mode, since, index, start, aside, settled]
  const result = signed(guest, 'static-relay/1 receipt', fields)
  const head = [Buffer.of(MODES.indexOf(mode)), number8(since), number8(index), start]
  const receipt = Buffer.concat([...head, number8(aside), number8(settled), result.signature])
  return { about, channel_id: channelId, mode, since, index, hash: start, aside, settled, ...result, receipt }
})

// ---- Invites (6) ----

const secret = run(0xe0, 32)
const name = 'acme/support/tier-1'
const relay = 'relay.example'
const expiresAt = 1_893_456_000_000
const INVITE = 'static invite 1 '
const derive = (key: Uint8Array, label: string, length: number): Buffer =>
  Buffer.from(hkdfSync('sha256', key, Buffer.alloc(0), `${INVITE}${label}`, length))
const membersKey = derive(secret, 'members', 32)
const keys = {
  invite_id: derive(secret, 'id', 16),
  admission: derive(secret, 'admission', 32),
  members: membersKey,
  join: derive(membersKey, 'join', 32),
  welcome: derive(membersKey, 'welcome', 32),
  box: derive(membersKey, 'box', 32),
  seal: derive(membersKey, 'seal', 32),
}
const token = Buffer.concat([
  Buffer.of(2, 1),
  number8(expiresAt),
  secret,
  owner.agentId,
  channelId,
  Buffer.of(name.length),
  Buffer.from(name),
  Buffer.of(relay.length),
  Buffer.from(relay),
])
/** The same for an owner that asks for a proof. */
const provingToken = Buffer.concat([
  Buffer.of(2, 2),
  token.subarray(2, 2 + 8 + 32 + 32 + 16),
  run(0x77, 32),
  token.subarray(2 + 8 + 32 + 32 + 16),
])
const joinNonce = run(0x70, 16)
const keyPackage = run(0x90, 40)
const JOIN = 'static join 1'
const joinBytes = signedBytes(JOIN, [channelId, name, keys.invite_id, owner.agentId, joinNonce, keyPackage])
const joinMac = hmac(keys.join, joinBytes)
const boxNonce = run(0xb0, 12)
const box = Buffer.concat([
  boxNonce,
  gcm(keys.box, boxNonce, keys.invite_id, Buffer.concat([joinNonce, joinMac, keyPackage])),
])
const sessionNonce = run(0x80, 32)
const proofBytes = lengthPrefixed([JOIN, sessionNonce, keys.invite_id, guest.agentId, sha256(box)])
const welcome = run(0xd0, 60)
const authenticator = run(0x33, 32)
const WELCOME = 'static welcome 2'
const welcomeBytes = signedBytes(WELCOME, [keys.invite_id, sha256(keyPackage), welcome, authenticator])

const invite = {
  token: {
    admit: 'members',
    expires_at_ms: expiresAt,
    secret,
    owner: owner.agentId,
    channel_id: channelId,
    name,
    relay,
    bytes: token,
    text: `st_inv_${token.toString('base64url')}`,
  },
  proving_token: {
    admit: 'owner',
    box_key_hash: run(0x77, 32),
    bytes: provingToken,
    text: `st_inv_${provingToken.toString('base64url')}`,
  },
  context: INVITE,
  keys,
  join: {
    context: JOIN,
    nonce: joinNonce,
    key_package: keyPackage,
    bytes: joinBytes,
    mac: joinMac,
    box_nonce: boxNonce,
    box,
  },
  admission: {
    context: JOIN,
    session_nonce: sessionNonce,
    agent_id: guest.agentId,
    bytes: proofBytes,
    proof: hmac(keys.admission, proofBytes),
  },
  welcome: {
    context: WELCOME,
    welcome,
    epoch_authenticator: authenticator,
    bytes: welcomeBytes,
    mac: hmac(keys.welcome, welcomeBytes),
  },
}

// ---- Lists of invites and claims (6.5) ----

const lists = [
  { about: 'one invite, of which a use is counted', number: 1, slot: 12, uses: [5], counts: [1] },
  { about: 'none: all are revoked', number: 2, slot: 13, uses: [], counts: [] },
  {
    about: 'two, and the count of the second is not known',
    number: 3,
    slot: 13,
    uses: [1, 250],
    counts: [0, undefined],
  },
].map(({ about, number, slot, uses, counts }) => {
  const listed = uses.map((each, at) => ({
    invite_id: at === 0 ? keys.invite_id : run(at, 16),
    members_key: at === 0 ? keys.members : run(0x20 + at, 32),
    expires_at_ms: expiresAt + at,
    uses: each,
  }))
  const items = listed.map((each) => [each.invite_id, each.members_key, each.expires_at_ms, each.uses])
  const result = signed(owner, 'static invites 1', [channelId, slot, number, items])
  const place = { channel_id: channelId, number, slot, invites: listed }
  // A commit has come since the owner signed it.
  const countsSlot = slot + 1
  const payload = Buffer.concat([
    number8(countsSlot),
    number8(number),
    number8(slot),
    Buffer.of(listed.length),
    ...listed.flatMap((each) => [each.invite_id, each.members_key, number8(each.expires_at_ms), number4(each.uses)]),
    result.signature,
    ...counts.map((count) => number4(count ?? 0xffff_ffff)),
  ])
  const shown = counts.map((count) => count ?? null)
  return { about, ...place, ...result, counts_slot: countsSlot, counts: shown, payload }
})

const claims = [
  { about: 'one agent', agents: [guest.agentId] },
  { about: 'two', agents: [guest.agentId, run(3, 32)] },
].map(({ about, agents }) => {
  const claimed = agents.map((agent_id) => ({ invite_id: keys.invite_id, agent_id }))
  return { about, claims: claimed, payload: Buffer.concat(claimed.flatMap((each) => [each.invite_id, each.agent_id])) }
})

// ---- Frames (5.1) ----

const KINDS: Record<string, number> = {
  payload: 0,
  heartbeat: 1,
  hello: 2,
  greeting: 3,
  request: 4,
  answer: 5,
  answer_end: 6,
  cancel: 7,
  more: 8,
  invites: 9,
  claim: 10,
  pack: 11,
  prove: 12,
  proof: 13,
  file: 14,
  approval: 15,
  decision: 16,
  refused: 17,
}
let previous: Buffer = Buffer.alloc(32)
const frames = [
  { about: 'a first message', kind: 'payload', counter: 1, payload: Buffer.from('hello') },
  { about: 'the next one', kind: 'payload', counter: 2, payload: Buffer.alloc(0) },
  { about: 'a heartbeat', kind: 'heartbeat', counter: 3, payload: Buffer.alloc(0) },
  { about: "a joiner's hello", kind: 'hello', counter: 4, payload: run(0x70, 16) },
  { about: "the owner's greeting", kind: 'greeting', counter: 5, payload: run(0x70, 16) },
  {
    about: 'a request to one member, which waits a minute',
    kind: 'request',
    counter: 6,
    payload: Buffer.concat([run(0x80, 32), number8(60_000), Buffer.from('status?')]),
  },
  { about: 'a request to all', kind: 'request', counter: 7, payload: Buffer.concat([Buffer.alloc(32), number8(1)]) },
  {
    about: 'a first answer',
    kind: 'answer',
    counter: 8,
    payload: Buffer.concat([idOf(6), number4(0), Buffer.from('wait')]),
  },
  {
    about: 'the last answer, with the end',
    kind: 'answer_end',
    counter: 9,
    payload: Buffer.concat([idOf(6), number4(1), Buffer.of(1), Buffer.from('fine')]),
  },
  {
    about: 'an end and nothing else',
    kind: 'answer_end',
    counter: 10,
    payload: Buffer.concat([idOf(6), number4(2), Buffer.of(0)]),
  },
  {
    about: 'an error',
    kind: 'answer_end',
    counter: 11,
    payload: Buffer.concat([idOf(7), number4(0), Buffer.of(2, 9), Buffer.from('not_foundNo such order.')]),
  },
  { about: 'a cancelled request', kind: 'cancel', counter: 12, payload: idOf(7) },
  {
    about: 'three answers are read',
    kind: 'more',
    counter: 13,
    payload: Buffer.concat([idOf(6), number4(3)]),
  },
  {
    about: 'three payloads in one message, the second one empty',
    kind: 'pack',
    counter: 14,
    payload: Buffer.concat([number4(3), Buffer.from('one'), number4(0), number4(5), Buffer.from('three')]),
  },
  { about: "the owner's list of invites", kind: 'invites', counter: 15, payload: lists[0]?.payload ?? Buffer.alloc(0) },
  { about: 'a claim', kind: 'claim', counter: 16, payload: claims[0]?.payload ?? Buffer.alloc(0) },
  { about: 'two requests are refused', kind: 'refused', counter: 17, payload: Buffer.concat([idOf(6), idOf(7)]) },
  { about: 'the owner asks for a proof', kind: 'prove', counter: 18, payload: guest.agentId },
  {
    about: 'an agent that entry 12 added shows a proof',
    kind: 'proof',
    counter: 19,
    payload: Buffer.concat([number8(12), run(1, 90)]),
  },
  ...fileVectors.map(({ about, message }, at) => ({ about, kind: 'file', counter: 20 + at, payload: message })),
  ...approvalVectors.map(({ about, bytes }, at) => ({ about, kind: 'approval', counter: 23 + at, payload: bytes })),
  ...decisionVectors.map(({ about, decision }, at) => ({
    about,
    kind: 'decision',
    counter: 25 + at,
    payload: decision,
  })),
].map((frame) => {
  const place = { message_id: idOf(frame.counter), previous, seen_index: 300 + frame.counter, seen_hash: start }
  const bytes = Buffer.concat([
    Buffer.of(1, KINDS[frame.kind] ?? 255),
    place.message_id,
    number8(frame.counter),
    place.previous,
    number8(place.seen_index),
    place.seen_hash,
    frame.payload,
  ])
  previous = sha256(bytes)
  return { ...frame, ...place, bytes }
})

// ---- Invite links (6.4) ----

/** A self-signed certificate. */
const authority = Buffer.from(
  'MIIBSDCB+6ADAgECAhRllzr+H+wdLjGjxUS49h9ym0FIdjAFBgMrZXAwGTEXMBUGA1UEAwwOU3RhdGljIHZlY3RvcnMwIBcNMjYxMTE2' +
    'MDMzNjQ2WhgPMjEyNjEwMjMwMzM2NDZaMBkxFzAVBgNVBAMMDlN0YXRpYyB2ZWN0b3JzMCowBQYDK2VwAyEAC+MErHnu/aEJXAKdEcQK' +
    'fWwu6Aw7dadCKrR+E6lOVQWjUzBRMB0GA1UdDgQWBBQCfuVKjZV1BB4FTuzyMO/AZo7QkTAfBgNVHSMEGDAWgBQCfuVKjZV1BB4FTuzy' +
    'MO/AZo7QkTAPBgNVHRMBAf8EBTADAQH/MAUGAytlcANBABP4x7DoIr5IgMEvbD5njOBojdZ/vSyxOjbKFb8Fm06XDjstC+loi1TOoegE' +
    'K20X+fzgcNObKzqxTEtbHyRXHAw=',
  'base64',
)
const relayId = run(0xa0, 32)

const LINK = 'static link 1'
const links = [
  {
    about: 'QUIC at a name, with a CA',
    way: 'quic',
    addresses: [{ host: relay, port: 4433 }],
    grpc_port: 5000,
    certificates: [authority],
  },
  {
    about: 'gRPC at an IPv6 address',
    way: 'grpc',
    addresses: [{ host: '2001:db8::1', port: 443 }],
    grpc_port: 0,
    certificates: [],
  },
  {
    about: 'two nodes',
    way: 'quic',
    addresses: [
      { host: '192.0.2.1', port: 4433 },
      { host: 'node-2.example', port: 4434 },
    ],
    grpc_port: 5000,
    certificates: [],
  },
].map((link) => {
  const body = Buffer.concat([
    Buffer.of(1, link.way === 'quic' ? 0 : 1),
    number2(link.grpc_port),
    Buffer.of(link.addresses.length),
    ...link.addresses.flatMap(({ host, port }) => [number2(port), Buffer.of(host.length), Buffer.from(host)]),
    relayId,
    Buffer.of(link.certificates.length),
    ...link.certificates.flatMap((certificate) => [number2(certificate.length), certificate]),
    number2(token.length),
    token,
  ])
  const checksum = sha256(Buffer.concat([Buffer.from(LINK), body])).subarray(0, 4)
  const bytes = Buffer.concat([body, checksum])
  return { ...link, context: LINK, relay_id: relayId, token, bytes, text: `static://${bytes.toString('base64url')}` }
})

// ---- Verification words (5.3) ----

/** From the word list of BIP 39, by hand; our tests look the numbers up in it. */
const WORDS = [
  'position few collect monkey rather abandon burst already turtle answer arrive subway',
  'wool produce lens mosquito symbol brisk thank river myth valid airport ceiling',
]

const VERIFY = 'static verify 1'
const verify = [
  { epoch_authenticator: authenticator, index: 300, hash: start },
  { epoch_authenticator: run(0, 32), index: 0, hash: run(0x77, 32) },
].map((inputs, at) => {
  const place = [inputs.epoch_authenticator, number8(inputs.index), inputs.hash]
  const entropy = sha256(Buffer.concat([Buffer.from(VERIFY), ...place])).subarray(0, 16)
  // The 128 bits and the first 4 of their hash, in groups of 11.
  const bits = (BigInt(`0x${entropy.toString('hex')}`) << 4n) | BigInt((sha256(entropy)[0] ?? 0) >> 4)
  const numbers = Array.from({ length: 12 }, (_, group) => Number((bits >> BigInt(11 * (11 - group))) & 2047n))
  return { context: VERIFY, ...inputs, entropy, numbers, words: WORDS[at] }
})

// ---- Agents and groups (4.1, 4.3) ----

/** A vector of MLS: at most 63 bytes need one byte of length. */
const opaque = (bytes: Buffer): Buffer => Buffer.concat([Buffer.of(bytes.length), bytes])
const FOUNDER = 'static founder'
const LONE_LEAF = 'static lone leaf'

/** RFC 9420, 8: ExpandWithLabel. HKDF-Expand of 32 bytes is one HMAC. */
function expandWithLabel(secret: Buffer, label: string, content: Buffer): Buffer {
  const info = Buffer.concat([number2(32), opaque(Buffer.from(`MLS 1.0 ${label}`)), opaque2(content)])
  return hmac(secret, Buffer.concat([info, Buffer.of(1)]))
}

/** 64 to 16,383 bytes: two bytes of length, the first of which begins with 01. */
const opaque2 = (bytes: Buffer): Buffer =>
  bytes.length < 64 ? opaque(bytes) : Buffer.concat([number2(0x4000 | bytes.length), bytes])

const zeros = Buffer.alloc(32)
const psk = run(0x40, 32)
const pskNonce = run(0x80, 32)
const pskId = Buffer.concat([Buffer.of(1), opaque(Buffer.from(LONE_LEAF)), opaque(pskNonce)])
const pskLabel = Buffer.concat([pskId, number2(0), number2(1)])

const group = {
  agent: { seed: owner.seed, public_key: owner.publicKey, agent_id: owner.agentId },
  extensions: [
    { about: 'the data of the two extensions of a GroupContext', standby: Buffer.alloc(32), offered: false },
    { about: 'with a standby', standby: guest.agentId, offered: false },
    { about: 'offered to the standby', standby: guest.agentId, offered: true },
  ].map(({ about, standby, offered }) => ({
    about,
    name,
    owner: owner.agentId,
    standby,
    offered,
    required_capabilities: Buffer.from('04f57af57c00020001', 'hex'),
    channel: Buffer.concat([Buffer.of(2, offered ? 1 : 0), owner.agentId, standby, Buffer.from(name)]),
  })),
  founder: { context: FOUNDER, credential: Buffer.concat([Buffer.of(0), Buffer.from(FOUNDER)]) },
  lone_leaf: {
    about: 'the proposal of a lone committer; key and nonce are random and used once',
    context: LONE_LEAF,
    psk,
    psk_nonce: pskNonce,
    proposal: Buffer.concat([number2(4), pskId]),
    psk_secret: hmac(expandWithLabel(hmac(zeros, psk), 'derived psk', pskLabel), zeros),
  },
  padding: [
    { cells: 2, plaintext_bytes: [98, 1768], ciphertext_bytes: 1914 },
    { cells: 5, plaintext_bytes: [1769, 4831], ciphertext_bytes: 4977 },
    { cells: 17, plaintext_bytes: [4832, 17_079], ciphertext_bytes: 17_229 },
    { cells: 65, plaintext_bytes: [17_080, 66_087], ciphertext_bytes: 66_237 },
    { cells: 258, plaintext_bytes: [66_088, 262_242], ciphertext_bytes: 263_290 },
  ],
}

// ---- Cells (3.2) ----

const cellOf = (type: number, payload: Buffer): Buffer =>
  Buffer.concat([Buffer.of(type), number2(payload.length), payload], 1024)
const long = run(1, 2 * 1021 + 3)
const cells = [
  { about: 'cover', type: 'cover', payload: Buffer.alloc(0), cells: cellOf(0, Buffer.alloc(0)) },
  { about: 'cover that requests cover', type: 'coverAsk', payload: Buffer.alloc(0), cells: cellOf(1, Buffer.alloc(0)) },
  { about: 'a ping', type: 'ping', payload: run(1, 8), cells: cellOf(2, run(1, 8)) },
  { about: 'its pong', type: 'pong', payload: run(1, 8), cells: cellOf(3, run(1, 8)) },
  { about: 'an acknowledgement', type: 'ack', payload: run(1, 20), cells: cellOf(4, run(1, 20)) },
  { about: 'an envelope that fits', type: 'envelope', payload: run(1, 1021), cells: cellOf(5, run(1, 1021)) },
  {
    about: 'one that takes three cells',
    type: 'envelope',
    payload: long,
    cells: Buffer.concat([
      cellOf(6, long.subarray(0, 1021)),
      cellOf(7, long.subarray(1021, 2042)),
      cellOf(8, long.subarray(2042)),
    ]),
  },
]

// ---- API keys (1.4) ----

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const apiKeys = [
  { mode: 'live', row: 'aB3dE5gH', secret: '0123456789ABCDEFGHIJKLMNOPQRSTUV' },
  { mode: 'test', row: 'zzzzzzzz', secret: 'zyxwvutsrqponmlkjihgfedcbaZYXWVU' },
].map(({ mode, row, secret }) => {
  const body = `sk_${mode}_${row}${secret}`
  const sum = crc32(body)
  const digits = Array.from({ length: 6 }, (_, at) => BASE62.charAt(Math.floor(sum / 62 ** (5 - at)) % 62))
  return { mode, key_prefix: body.slice(0, 16), secret, crc32: sum, key: body + digits.join('') }
})

// ---- Nodes of a relay (3.9, 3.10) ----

const relayKey = run(0x11, 32)
const nodeKey = (purpose: string): Buffer => Buffer.from(hkdfSync('sha256', relayKey, relayId, purpose, 32))
const [TOKEN_KEY, BUS_KEY, BUS] = ['static-relay/1 token', 'static-relay/1 bus', 'static-bus/1']
const subject = `static.${sha256(relayId).subarray(0, 16).toString('hex')}.a.${guest.agentId.toString('hex')}`
const nodeHead = { node: run(0x30, 16), number: 7, time: expiresAt }
const nodeItem = { json: '{"type":"example","id":{"$bytes":3}}', bytes: run(1, 3) }
const busBody = Buffer.concat([
  nodeHead.node,
  number8(nodeHead.number),
  number8(nodeHead.time),
  number4(nodeItem.json.length),
  Buffer.from(nodeItem.json),
  nodeItem.bytes,
])
const busMac = hmac(nodeKey(BUS_KEY), Buffer.concat([Buffer.from(`${BUS}\0${subject}\0`), busBody]))
const nodes = {
  relay_key: relayKey,
  relay_id: relayId,
  token: { context: TOKEN_KEY, key: nodeKey(TOKEN_KEY) },
  bus: { context: BUS_KEY, key: nodeKey(BUS_KEY) },
  message: { context: BUS, subject, ...nodeHead, ...nodeItem, frame: Buffer.concat([Buffer.of(1), busMac, busBody]) },
}

// ---- The agent's directory (5.7, 5.8) ----

const databaseKey = run(0x51, 32)
const RING = 'static agent ring'
const RING_LIFE = 'static agent ring life'
const ringSecret = Buffer.from(hkdfSync('sha256', databaseKey, Buffer.alloc(0), RING, 32))
const life = run(0x61, 16)
const ringKey = Buffer.from(hkdfSync('sha256', ringSecret, life, RING_LIFE, 32))
const little = (value: number, bytes: number): Buffer => {
  const buffer = Buffer.alloc(bytes)
  buffer.writeUIntLE(value, 0, Math.min(bytes, 6))
  return buffer
}
const ringRecords = [
  { about: 'changes, which are not of this file', kind: 'changes', number: 1, before: Buffer.alloc(16) },
  { about: 'direct', kind: 'direct', number: 2, before: run(0x71, 16) },
].map((each) => {
  const changes = each.kind === 'changes' ? run(1, 30) : Buffer.alloc(0)
  const plain = Buffer.concat([Buffer.of(each.kind === 'changes' ? 0 : 1), changes])
  const head = Buffer.concat([life, little(each.number, 8), little(plain.length, 4), each.before])
  const record = gcm(ringKey, little(each.number, 12), head, plain)
  const size = Math.ceil((head.length + record.length) / 64) * 64
  return { ...each, changes, record: Buffer.concat([head, record], size) }
})
const ring = {
  database_key: databaseKey,
  secret: { context: RING, key: ringSecret },
  life: { context: RING_LIFE, life, key: ringKey },
  records: ringRecords,
}

const SLOT = 'static key slot 1 '
const slots = [
  { id: '0123456789abcdef', type: 'file' },
  {
    id: 'fedcba9876543210',
    type: 'passphrase',
    salt: run(0x21, 16).toString('base64'),
    memory: 65_536,
    passes: 3,
  },
].map((header) => {
  const [slotKey, nonce] = [run(0x31, 32), run(0x41, 12)]
  const aad = `${SLOT}${JSON.stringify(header)}`
  const wrapped = gcm(slotKey, nonce, Buffer.from(aad), databaseKey)
  const slot = { ...header, nonce: nonce.toString('base64'), wrapped: wrapped.toString('base64') }
  return { context: SLOT, slot_key: slotKey, database_key: databaseKey, additional_data: aad, slot }
})

/** The files as they should be, by name. */
export const files: ReadonlyMap<string, string> = new Map([
  ['session.json', text(sessions)],
  ['leave.json', text(leaves)],
  ['commit.json', text(commits)],
  ['chain.json', text(chain)],
  ['roster.json', text(rosters)],
  ['vouch.json', text(vouches)],
  ['receipt.json', text(receipts)],
  ['file.json', text(fileVectors)],
  ['approval.json', text({ requests: approvalVectors, decisions: decisionVectors })],
  ['frame.json', text(frames)],
  ['invite.json', text(invite)],
  ['invite-list.json', text(lists)],
  ['claim.json', text(claims)],
  [
    'proof-box.json',
    text(
      proofBoxes({
        inviteId: keys.invite_id,
        box: keys.box,
        agentId: guest.agentId,
        nonce: joinNonce,
        mac: joinMac,
        keyPackage,
      }),
    ),
  ],
  ['sealed-welcome.json', text(sealedWelcomes({ id: keys.invite_id, seal: keys.seal }))],
  ['proof.json', text(proofVectors)],
  ['link.json', text(links)],
  ['verify.json', text(verify)],
  ['group.json', text(group)],
  ['cell.json', text(cells)],
  ['api-key.json', text(apiKeys)],
  ['nodes.json', text(nodes)],
  ['ring.json', text(ring)],
  ['key-slot.json', text(slots)],
])

if (import.meta.main) for (const [file, content] of files) writeFileSync(join(import.meta.dirname, file), content)
