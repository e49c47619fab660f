/**
 * Makes the vectors of everything that is signed, hashed or derived: `node tests/vectors/make.ts` writes the JSON files
 * beside this one. Byte strings are hex; texts and numbers are themselves. The bytes are made with Node's cryptography
 * alone and by the words of SPEC.md, so that they depend on no code of ours.
 */
import { createCipheriv, createHash, createHmac, createPrivateKey, createPublicKey, hkdfSync, sign } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

type Field = Buffer | string | number | readonly Field[]

/** The layout of SPEC.md, 3.3. */
function lengthPrefixed(fields: readonly Field[]): Buffer {
  return Buffer.concat(
    fields.flatMap((field) => {
      const bytes = toBytes(field)
      const length = Buffer.alloc(4)
      length.writeUInt32BE(bytes.length)
      return [length, bytes]
    }),
  )
}

function toBytes(field: Field): Buffer {
  if (typeof field === 'number') return number8(field)
  if (typeof field === 'string') return Buffer.from(field)
  return Buffer.isBuffer(field) ? field : lengthPrefixed(field)
}

function number4(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function number8(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(value))
  return bytes
}

function signedBytes(context: string, fields: readonly Field[]): Buffer {
  return Buffer.concat([Buffer.from(`${' '.repeat(64)}${context}\0`), lengthPrefixed(fields)])
}

const sha256 = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest()
const hmac = (key: Buffer, bytes: Buffer): Buffer => createHmac('sha256', key).update(bytes).digest()
/** Bytes that count up, so that a swapped or reversed field shows. */
const run = (first: number, length: number): Buffer =>
  Buffer.from(Array.from({ length }, (_, at) => (first + at) & 255))

/** A text in which every byte string is hex. */
function text(value: unknown): string {
  const hexed = (item: unknown): unknown => {
    if (Buffer.isBuffer(item)) return item.toString('hex')
    if (Array.isArray(item)) return item.map(hexed)
    if (typeof item !== 'object' || item === null) return item
    return Object.fromEntries(Object.entries(item).map(([key, inner]) => [key, hexed(inner)]))
  }
  return `${JSON.stringify(hexed(value), undefined, 2)}\n`
}

/** An agent's Ed25519 key. */
interface Agent {
  readonly seed: Buffer
  readonly publicKey: Buffer
  readonly agentId: Buffer
}

const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex')

function keyOf(seed: Buffer): ReturnType<typeof createPrivateKey> {
  return createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: 'der', type: 'pkcs8' })
}

function agentOf(seed: Buffer): Agent {
  const publicKey = createPublicKey(keyOf(seed)).export({ format: 'der', type: 'spki' }).subarray(-32)
  return { seed, publicKey, agentId: sha256(publicKey) }
}

const owner = agentOf(run(0, 32))
const guest = agentOf(run(100, 32))
const channelId = run(0x10, 16)
const messageId = run(0x40, 16)

/** The bytes of a context and fields, and what the agent's signature of them is. */
function signed(
  agent: Agent,
  context: string,
  fields: readonly Field[],
): { context: string; bytes: Buffer; seed: Buffer; signature: Buffer } {
  const bytes = signedBytes(context, fields)
  return { context, bytes, seed: agent.seed, signature: sign(null, bytes, keyOf(agent.seed)) }
}

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
}

const changes: readonly Change[] = [
  { about: 'a new key, and no change', adds: [], removes: [], leave_notices: [] },
  { about: 'two adds', adds: [guest.agentId, run(3, 32)], removes: [], leave_notices: [] },
  {
    about: 'an add, a remove and a leaver',
    adds: [run(3, 32)],
    removes: [run(5, 32), guest.agentId],
    leave_notices: leaves.slice(0, 1).map(({ notice }) => notice),
  },
]

const commits = changes.map(({ about, adds, removes, leave_notices }, at) => {
  const commit = run(0xa0, 20 + at)
  const slot = 9 + at
  const change: Field[] = [adds, removes, leave_notices.map(noticeFields)]
  const place = [channelId, slot, messageId, sha256(commit)]
  const result = signed(owner, 'static-relay/1 commit', [...place, ...change])
  const body = lengthPrefixed([commit, ...change, result.signature])
  const inputs = { channel_id: channelId, slot, message_id: messageId, commit, adds, removes, leave_notices }
  return { about, ...inputs, ...result, body }
})

const steps = [
  { kind: 'commit', sender: owner.agentId, message_id: messageId, body: commits[0]?.body ?? Buffer.alloc(0) },
  { kind: 'message', sender: guest.agentId, message_id: run(0x50, 16), body: run(0, 64) },
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
  { about: 'the owner alone', agent_ids: [owner.agentId] },
  { about: 'three members', agent_ids: [owner.agentId, guest.agentId, run(3, 32)] },
].map(({ about, agent_ids }) => {
  const inputs = { channel_id: channelId, slot: 12, index: 300, hash: start, agent_ids }
  const fields = [channelId, inputs.slot, inputs.index, start, agent_ids]
  return { about, ...inputs, ...signed(owner, 'static-relay/1 roster', fields) }
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
}
const token = Buffer.concat([
  Buffer.of(1, 1),
  number8(expiresAt),
  secret,
  owner.agentId,
  channelId,
  Buffer.of(name.length),
  Buffer.from(name),
  Buffer.of(relay.length),
  Buffer.from(relay),
])
const joinNonce = run(0x70, 16)
const keyPackage = run(0x90, 40)
const JOIN = 'static join 1'
const joinBytes = signedBytes(JOIN, [channelId, name, keys.invite_id, owner.agentId, joinNonce, keyPackage])
const joinMac = hmac(keys.join, joinBytes)
const boxNonce = run(0xb0, 12)
const cipher = createCipheriv('aes-256-gcm', keys.box, boxNonce).setAAD(keys.invite_id)
const sealed = [cipher.update(Buffer.concat([joinNonce, joinMac, keyPackage])), cipher.final()]
const box = Buffer.concat([boxNonce, ...sealed, cipher.getAuthTag()])
const sessionNonce = run(0x80, 32)
const proofBytes = lengthPrefixed([JOIN, sessionNonce, keys.invite_id, guest.agentId, sha256(box)])
const welcome = run(0xd0, 60)
const authenticator = run(0x33, 32)
const WELCOME = 'static welcome 1'
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

const KINDS = [
  'payload',
  'heartbeat',
  'hello',
  'greeting',
  'request',
  'answer',
  'answer_end',
  'cancel',
  'more',
  'invites',
  'claim',
  'pack',
]
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
    payload: Buffer.concat([run(6, 16), number4(0), Buffer.from('wait')]),
  },
  {
    about: 'the last answer, with the end',
    kind: 'answer_end',
    counter: 9,
    payload: Buffer.concat([run(6, 16), number4(1), Buffer.of(1), Buffer.from('fine')]),
  },
  {
    about: 'an end and nothing else',
    kind: 'answer_end',
    counter: 10,
    payload: Buffer.concat([run(6, 16), number4(2), Buffer.of(0)]),
  },
  {
    about: 'an error',
    kind: 'answer_end',
    counter: 11,
    payload: Buffer.concat([run(7, 16), number4(0), Buffer.of(2, 9), Buffer.from('not_foundNo such order.')]),
  },
  { about: 'a cancelled request', kind: 'cancel', counter: 12, payload: run(7, 16) },
  {
    about: 'three answers are read',
    kind: 'more',
    counter: 13,
    payload: Buffer.concat([run(6, 16), number4(3)]),
  },
  {
    about: 'three payloads in one message, the second one empty',
    kind: 'pack',
    counter: 14,
    payload: Buffer.concat([number4(3), Buffer.from('one'), number4(0), number4(5), Buffer.from('three')]),
  },
  { about: "the owner's list of invites", kind: 'invites', counter: 15, payload: lists[0]?.payload ?? Buffer.alloc(0) },
  { about: 'a claim', kind: 'claim', counter: 16, payload: claims[0]?.payload ?? Buffer.alloc(0) },
].map((frame) => {
  const message_id = run(frame.counter, 16)
  // The number of a payload has room there.
  if (frame.kind === 'payload' || frame.kind === 'pack') message_id[15]! &= 0xf0
  const place = { message_id, previous, seen_index: 300 + frame.counter, seen_hash: start }
  const bytes = Buffer.concat([
    Buffer.of(1, KINDS.indexOf(frame.kind)),
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

const number2 = (value: number): Buffer => Buffer.of(value >> 8, value & 0xff)
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

/** The files as they should be, by name. */
export const files: ReadonlyMap<string, string> = new Map([
  ['session.json', text(sessions)],
  ['leave.json', text(leaves)],
  ['commit.json', text(commits)],
  ['chain.json', text(chain)],
  ['roster.json', text(rosters)],
  ['receipt.json', text(receipts)],
  ['frame.json', text(frames)],
  ['invite.json', text(invite)],
  ['invite-list.json', text(lists)],
  ['claim.json', text(claims)],
  ['link.json', text(links)],
  ['verify.json', text(verify)],
])

if (import.meta.main) for (const [file, content] of files) writeFileSync(join(import.meta.dirname, file), content)
