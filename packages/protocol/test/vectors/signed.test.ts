import assert from 'node:assert/strict'
import { createHash, createPrivateKey, sign } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { files } from '../../../../tests/vectors/make.ts'
import {
  chainNext,
  chainStart,
  commitBody,
  declarationBytes,
  decodeReceipt,
  encodeReceipt,
  fromHex,
  inviteListBytes,
  joinProofBytes,
  leaveBody,
  leaveBytes,
  type LeaveNoticeFields,
  PURPOSES,
  RECEIPT_MODES,
  receiptBytes,
  type ReceiptMode,
  rosterBytes,
  sessionBytes,
  type SessionPurpose,
  toHex,
  type TrafficProfileName,
  vouchBytes,
} from '../../src/index.ts'

const folder = resolve(import.meta.dirname, '../../../../tests/vectors')
const read = (name: string): unknown => JSON.parse(readFileSync(join(folder, name), 'utf8'))
const sha256 = (bytes: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(bytes).digest())

interface Signed {
  readonly about: string
  readonly bytes: string
  readonly seed: string
  readonly signature: string
}

/** Ed25519 is deterministic: the same bytes give the same signature. */
function check(vector: Signed, bytes: Uint8Array): void {
  assert.equal(toHex(bytes), vector.bytes, vector.about)
  const key = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), fromHex(vector.seed)])
  const signature = sign(null, bytes, createPrivateKey({ key, format: 'der', type: 'pkcs8' }))
  assert.equal(signature.toString('hex'), vector.signature, vector.about)
}

test('the vectors match their generator', () => {
  // ml-kem.go makes this one, so that another implementation has made it.
  const names = readdirSync(folder).filter((name) => name.endsWith('.json') && name !== 'ml-kem.json')
  assert.deepEqual(names.toSorted(), [...files.keys()].toSorted())
  for (const name of names) assert.equal(readFileSync(join(folder, name), 'utf8'), files.get(name), name)
})

test('vectors: the bytes that open and refresh a session', () => {
  interface Opening extends Signed {
    readonly purpose: SessionPurpose
    readonly profile: TrafficProfileName
    readonly cells_per_second: number
    readonly jwt: string
    readonly revision: number
    readonly relay_name: string
    readonly relay_id: string
    readonly relay_nonce: string
    readonly agent_nonce: string
  }
  const openings = read('session.json') as Opening[]
  assert.deepEqual(new Set(openings.map(({ purpose }) => purpose)), new Set(PURPOSES))
  for (const opening of openings) {
    const bytes = sessionBytes({
      purpose: opening.purpose,
      revision: opening.revision,
      relayName: opening.relay_name,
      relayId: fromHex(opening.relay_id),
      relayNonce: fromHex(opening.relay_nonce),
      agentNonce: fromHex(opening.agent_nonce),
      jwtHash: opening.jwt === '' ? undefined : sha256(Buffer.from(opening.jwt)),
      traffic: opening.profile,
      cellsPerSecond: opening.cells_per_second,
    })
    check(opening, bytes)
  }
})

interface Notice {
  readonly public_key: string
  readonly slot: number
  readonly leaf_keys: readonly string[]
  readonly signature: string
}

function noticeOf(notice: Notice): LeaveNoticeFields {
  return {
    publicKey: fromHex(notice.public_key),
    slot: BigInt(notice.slot),
    leafKeys: notice.leaf_keys.map(fromHex),
    signature: fromHex(notice.signature),
  }
}

test('vectors: a leave notice and the body of its entry', () => {
  interface Leave extends Signed, Omit<Notice, 'public_key' | 'signature'> {
    readonly channel_id: string
    readonly notice: Notice
    readonly body: string
  }
  for (const leave of read('leave.json') as Leave[]) {
    const notice = noticeOf(leave.notice)
    check(leave, leaveBytes(fromHex(leave.channel_id), notice))
    assert.equal(toHex(leaveBody(notice)), leave.body)
  }
})

test('vectors: a declaration and the body of its commit', () => {
  interface Commit extends Signed {
    readonly channel_id: string
    readonly slot: number
    readonly message_id: string
    readonly commit: string
    readonly adds: readonly string[]
    readonly removes: readonly string[]
    readonly leave_notices: readonly Notice[]
    readonly vouches: readonly string[]
    readonly owner: string
    readonly standby: string
    readonly body: string
  }
  for (const vector of read('commit.json') as Commit[]) {
    const commit = fromHex(vector.commit)
    const declaration = {
      adds: vector.adds.map(fromHex),
      removes: vector.removes.map(fromHex),
      leaveNotices: vector.leave_notices.map(noticeOf),
      vouches: vector.vouches.map(fromHex),
      owner: fromHex(vector.owner),
      standby: fromHex(vector.standby),
    }
    const place = {
      channelId: fromHex(vector.channel_id),
      slot: BigInt(vector.slot),
      messageId: fromHex(vector.message_id),
      commitHash: sha256(commit),
    }
    check(vector, declarationBytes(place, declaration))
    assert.equal(toHex(commitBody(commit, { ...declaration, signature: fromHex(vector.signature) })), vector.body)
  }
})

test('vectors: the hash chain of a log', () => {
  interface Entry {
    readonly kind: 'message' | 'commit' | 'leave'
    readonly sender: string
    readonly message_id: string
    readonly body: string
    readonly hash: string
  }
  const chain = read('chain.json') as { channel_id: string; start: string; entries: Entry[] }
  let hash = chainStart(sha256, fromHex(chain.channel_id))
  assert.equal(toHex(hash), chain.start)
  for (const { kind, sender, message_id, body, hash: expected } of chain.entries) {
    const [messageId, bodyHash] = [fromHex(message_id), sha256(fromHex(body))]
    hash = chainNext(sha256, hash, { kind, sender: fromHex(sender), messageId, bodyHash })
    assert.equal(toHex(hash), expected, kind)
  }
})

test('vectors: the roster that the owner signs', () => {
  interface Roster extends Signed {
    readonly channel_id: string
    readonly slot: number
    readonly index: number
    readonly hash: string
    readonly agent_ids: readonly string[]
    readonly vouched: readonly string[]
  }
  for (const roster of read('roster.json') as Roster[]) {
    const claim = {
      channelId: fromHex(roster.channel_id),
      slot: BigInt(roster.slot),
      index: BigInt(roster.index),
      hash: fromHex(roster.hash),
      agentIds: roster.agent_ids.map(fromHex),
      vouched: roster.vouched.map(fromHex),
    }
    check(roster, rosterBytes(claim))
  }
})

test('vectors: a vouch of the owner', () => {
  interface Vouch extends Signed {
    readonly channel_id: string
    readonly slot: number
    readonly agent_ids: readonly string[]
  }
  for (const vouch of read('vouch.json') as Vouch[]) {
    const { channel_id, slot, agent_ids } = vouch
    check(vouch, vouchBytes({ channelId: fromHex(channel_id), slot: BigInt(slot), agentIds: agent_ids.map(fromHex) }))
  }
})

test('vectors: receipts, signed and as they travel', () => {
  interface Receipt extends Signed {
    readonly channel_id: string
    readonly mode: ReceiptMode
    readonly since: number
    readonly index: number
    readonly hash: string
    readonly aside: number
    readonly settled: number
    readonly receipt: string
  }
  const receipts = read('receipt.json') as Receipt[]
  assert.deepEqual(new Set(receipts.map(({ mode }) => mode)), new Set(RECEIPT_MODES))
  for (const vector of receipts) {
    const { mode, since, index, aside, settled } = vector
    const claim = { mode, since, index, hash: fromHex(vector.hash), aside, settled }
    check(vector, receiptBytes(fromHex(vector.channel_id), claim))
    const receipt = { ...claim, signature: fromHex(vector.signature) }
    assert.equal(toHex(encodeReceipt(receipt)), vector.receipt)
    assert.deepEqual(decodeReceipt(fromHex(vector.receipt)), receipt)
  }
})

test('vectors: the list of invites that the owner signs', () => {
  interface List extends Signed {
    readonly channel_id: string
    readonly slot: number
    readonly number: number
    readonly invites: readonly {
      readonly invite_id: string
      readonly members_key: string
      readonly expires_at_ms: number
      readonly uses: number
    }[]
  }
  for (const list of read('invite-list.json') as List[]) {
    const invites = list.invites.map((invite) => ({
      inviteId: fromHex(invite.invite_id),
      membersKey: fromHex(invite.members_key),
      expiresAtMs: BigInt(invite.expires_at_ms),
      uses: BigInt(invite.uses),
    }))
    const place = { channelId: fromHex(list.channel_id), slot: BigInt(list.slot), number: BigInt(list.number) }
    check(list, inviteListBytes({ ...place, invites }))
  }
})

test('vectors: the bytes that the admission proof of a joiner covers', () => {
  interface Invite {
    readonly keys: { readonly invite_id: string }
    readonly join: { readonly box: string }
    readonly admission: { readonly session_nonce: string; readonly agent_id: string; readonly bytes: string }
  }
  const { keys, join: request, admission } = read('invite.json') as Invite
  const claim = {
    sessionNonce: fromHex(admission.session_nonce),
    inviteId: fromHex(keys.invite_id),
    agentId: fromHex(admission.agent_id),
    boxHash: sha256(fromHex(request.box)),
  }
  assert.equal(toHex(joinProofBytes(claim)), admission.bytes)
})
