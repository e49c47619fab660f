/** Records of every kind, directories that go away, and the engines. */
import { createHash, randomBytes } from 'node:crypto'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { StaticError } from '@static/protocol'
import type {
  AgentStore,
  AttemptRecord,
  Change,
  ChannelRecord,
  EpochRecord,
  ApprovalEventRecord,
  ApprovalRecord,
  FileRecord,
  IdentityRecord,
  InboxRecord,
  InviteRecord,
  JoinerRecord,
  KeptRecord,
  LeaverRecord,
  OutboxRecord,
  PendingCommitRecord,
  UploadRecord,
} from '../../src/ports/index.ts'
import { databaseFile } from '../../src/store/connection.ts'
import { openDatabaseKey } from '../../src/store/keys/slots.ts'
import type { KeySource } from '../../src/store/keys/sources.ts'
import { ringFile } from '../../src/store/ring-disk.ts'
import { ALIGNMENT, RecordOpener, type RingRecord, ringSecret } from '../../src/store/ring/record.ts'
import { type AgentStoreOptions, openAgentStore } from '../../src/store/sqlcipher.ts'
import { openDatabase } from '../../src/store/sqlite.ts'

export const CHANNEL = '0123456789abcdef0123456789abcdef'
export const OTHER = 'fedcba9876543210fedcba9876543210'
export const AGENT: string = 'a1'.repeat(32)

/** Small, so that it is full after a few writes. */
export const RING_BYTES: number = 64 * 1024

/** Bytes that differ by label and are the same in every run. */
export function bytesOf(label: string, length = 32): Uint8Array {
  const parts: Buffer[] = []
  for (let at = 0; at * 32 < length; at++) parts.push(createHash('sha256').update(`${label} ${at}`).digest())
  return new Uint8Array(Buffer.concat(parts).subarray(0, length))
}

export const IDENTITY: IdentityRecord = {
  identity: new TextEncoder().encode('billing'),
  publicKey: bytesOf('public key'),
  secretKey: bytesOf('secret key'),
}

export function channelRecord(fields: Partial<ChannelRecord> = {}): ChannelRecord {
  return {
    id: CHANNEL,
    name: 'acme/support/routing',
    owner: AGENT,
    takenUnconfirmed: false,
    enteredUnder: undefined,
    state: 'joined',
    position: { index: 7, hash: bytesOf('position'), slot: 3 },
    epoch: {
      index: 2,
      counter: 1,
      isProven: true,
      hasHeardOwner: true,
      leftOut: [AGENT],
      leftOutBefore: [],
      doubted: [AGENT],
    },
    counter: 5,
    ownHash: bytesOf('own hash'),
    rekeyDue: false,
    rekeyedAt: 1_700_000_000_000,
    rekeyDeferredAt: 1_700_000_000_001,
    sentSinceRekey: 4,
    fork: undefined,
    broken: undefined,
    leafKeys: [bytesOf('leaf'), bytesOf('next leaf')],
    givenUpTo: 6,
    servedUpTo: 5,
    addedBy: undefined,
    offeredAt: 0,
    confirmed: true,
    removalSlot: 2,
    ...fields,
  }
}

export function epochRecord(label: string, leaves = 3): EpochRecord {
  const rows = Array.from({ length: leaves }, (_, leaf) => [leaf, bytesOf(`${label} row ${leaf}`, 90)] as const)
  return { group: bytesOf(`${label} group`, 9000), rows: new Map(rows) }
}

export function pendingRecord(label: string): PendingCommitRecord {
  return {
    messageId: bytesOf(`${label} id`, 16),
    slot: 4,
    request: bytesOf(`${label} request`, 2000),
    bodyHash: bytesOf(`${label} body`),
    next: epochRecord(`${label} next`),
    purpose: '{"type":"rotate"}',
  }
}

export function outboxRecord(counter: number, fields: Partial<OutboxRecord> = {}): OutboxRecord {
  return {
    messageId: bytesOf(`outbox ${counter}`, 16),
    counter,
    control: false,
    slot: 3,
    fileId: undefined,
    ciphertext: bytesOf(`outbox ciphertext ${counter}`, 1330),
    messageKey: bytesOf(`outbox key ${counter}`, 44),
    ...fields,
  }
}

export function fileRecord(index: number, fields: Partial<FileRecord> = {}): FileRecord {
  return {
    index,
    fileId: bytesOf(`file ${index}`, 16),
    secret: bytesOf(`file secret ${index}`),
    size: 70_000 + index,
    name: `report ${index}.pdf`,
    type: 'application/pdf',
    messageId: bytesOf(`inbox ${index}`, 16),
    sender: AGENT,
    identity: bytesOf('identity', 8),
    receivedAt: 1_700_000_000_000 + index,
    target: undefined,
    partFile: undefined,
    savedParts: 0,
    isDone: false,
    ...fields,
  }
}

export function approvalRecord(number: number, fields: Partial<ApprovalRecord> = {}): ApprovalRecord {
  return {
    hash: bytesOf(`approval ${number}`),
    identity: bytesOf('identity', 8),
    since: 1_700_000_000_000 + number,
    clock: 1_700_000_000_000 + number,
    outcome: undefined,
    isSpent: false,
    ...fields,
  }
}

export function approvalEvent(approval: number, number: number): ApprovalEventRecord {
  return {
    hash: approvalRecord(approval).hash,
    number,
    agent: AGENT,
    what: 'approve',
    at: 1_700_000_000_000 + number,
    decision: bytesOf(`decision ${number}`, 106),
    publicKey: bytesOf('key'),
    identity: bytesOf('identity', 8),
  }
}

export function uploadRecord(number: number, fields: Partial<UploadRecord> = {}): UploadRecord {
  return {
    fileId: bytesOf(`upload ${number}`, 16),
    secret: bytesOf(`upload secret ${number}`),
    size: 70_000 + number,
    name: 'report.pdf',
    type: '',
    text: 'Read this.',
    path: `/tmp/report ${number}.pdf`,
    begunAt: 1_700_000_000_000,
    ...fields,
  }
}

export function inboxRecord(index: number, fields: Partial<InboxRecord> = {}): InboxRecord {
  return {
    index,
    part: 0,
    messageId: bytesOf(`inbox ${index}`, 16),
    sender: AGENT,
    identity: new TextEncoder().encode('shipping'),
    epoch: 2,
    receivedAt: 1_700_000_000_000 + index,
    ciphertext: bytesOf(`inbox ciphertext ${index}`, 1330),
    messageKey: bytesOf(`inbox key ${index}`, 44),
    attempts: 0,
    ...fields,
  }
}

export function keptRecord(index: number, fields: Partial<KeptRecord> = {}): KeptRecord {
  const payload = bytesOf(`kept payload ${index}`, 700)
  return {
    index,
    part: 0,
    sender: AGENT,
    keptAt: 1_700_000_000_500 + index,
    bytes: payload.length,
    messageId: bytesOf(`inbox ${index}`, 16),
    identity: new TextEncoder().encode('shipping'),
    receivedAt: 1_700_000_000_000 + index,
    kind: 'payload',
    requestId: undefined,
    fileName: undefined,
    fileSize: undefined,
    fileType: undefined,
    payload,
    ...fields,
  }
}

export function leaverRecord(agent: string, fields: Partial<LeaverRecord> = {}): LeaverRecord {
  return {
    agent,
    publicKey: bytesOf(`${agent} key`),
    slot: 3,
    leafKeys: [bytesOf(`${agent} leaf`)],
    signature: bytesOf(`${agent} signature`, 64),
    ...fields,
  }
}

export function inviteRecord(id: string, fields: Partial<InviteRecord> = {}): InviteRecord {
  return {
    id,
    channel: CHANNEL,
    secret: bytesOf(`${id} secret`),
    expiresAt: 1_700_000_000_000,
    maxUses: 3,
    uses: 1,
    returned: 0,
    revoked: false,
    admit: 'owner',
    boxSecret: undefined,
    require: undefined,
    replaces: true,
    ...fields,
  }
}

export function joinerRecord(agent: string, invite: string, fields: Partial<JoinerRecord> = {}): JoinerRecord {
  return {
    channel: CHANNEL,
    agent,
    invite,
    nonce: bytesOf(`${agent} nonce`),
    keyPackageHash: bytesOf(`${agent} package`),
    spent: bytesOf(`${agent} before`),
    state: 'taken',
    since: 1_700_000_000_000,
    verdict: undefined,
    ...fields,
  }
}

export function attemptRecord(invite: string, fields: Partial<AttemptRecord> = {}): AttemptRecord {
  return {
    invite,
    channel: OTHER,
    name: 'acme/support/joining',
    owner: AGENT,
    secret: bytesOf(`${invite} secret`),
    expiresAt: 1_700_000_000_000,
    nonce: bytesOf(`${invite} nonce`),
    keyPackage: bytesOf(`${invite} package`, 400),
    admit: 'members',
    takenBack: false,
    boxKeyHash: bytesOf(`${invite} box`, 32),
    show: 'acme.example',
    ...fields,
  }
}

export const put = (fields: Partial<ChannelRecord> = {}): Change => ({
  type: 'putChannel',
  record: channelRecord(fields),
})

/** A directory for one test file's stores, 0700, gone at the end. */
export function makeDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'static-store-'))
  after(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

/** What a crash at this moment would leave. */
export function copyOf(directory: string): string {
  const copy = join(makeDirectory(), 'copy')
  cpSync(directory, copy, { recursive: true })
  return copy
}

export function optionsFor(directory: string, more: Partial<AgentStoreOptions> = {}): AgentStoreOptions {
  const { identity, publicKey, secretKey } = IDENTITY
  return { directory, identity, makeIdentity: () => ({ publicKey, secretKey }), ringBytes: RING_BYTES, ...more }
}

export async function openStore(directory: string, more: Partial<AgentStoreOptions> = {}): Promise<AgentStore> {
  return await openAgentStore(optionsFor(directory, more))
}

/** For `assert.throws` and `assert.rejects`. */
export function code(expected: string, words?: RegExp): (error: unknown) => boolean {
  return (error) => {
    if (!(error instanceof StaticError)) throw error
    if (error.code !== expected) throw error
    if (words !== undefined && !words.test(error.message)) throw error
    return true
  }
}

/** Every byte of the database as SQLite sees it, free pages included. Nobody may have it open. */
export async function decrypted(directory: string, source: KeySource = { type: 'file' }): Promise<Buffer> {
  const database = openDatabase(databaseFile(directory))
  try {
    database.pragma(`cipher = 'sqlcipher'`)
    database.pragma('legacy = 4')
    const key = await openDatabaseKey(directory, source)
    database.key(Buffer.from(`x'${key.toString('hex')}'`))
    return database.serialize()
  } finally {
    database.close()
  }
}

/** Every record in the ring that can still be read with the agent's key, decrypted. */
export async function ringRecords(directory: string, source: KeySource = { type: 'file' }): Promise<RingRecord[]> {
  const opener = new RecordOpener(ringSecret(await openDatabaseKey(directory, source)))
  const ring = readFileSync(ringFile(directory))
  const places = Array.from({ length: ring.length / ALIGNMENT }, (_, at) => at * ALIGNMENT)
  const found = places.flatMap((place) => opener.open(ring, place, opener.numberAt(ring, place) ?? -1) ?? [])
  return found.sort((a, b) => a.number - b.number)
}

/** The files of a directory that hold any of these bytes, raw, in hexadecimal or in base64. */
export function filesHolding(directory: string, secrets: readonly Uint8Array[]): string[] {
  const holds = searchFor(
    secrets.flatMap((secret) => {
      const bytes = Buffer.from(secret)
      // Base64 of a middle part would depend on its offset: three forms.
      const base64 = [0, 1, 2].map((skip) => bytes.subarray(skip).toString('base64').slice(0, 20))
      return [
        bytes.subarray(0, 16),
        Buffer.from(bytes.toString('hex').slice(0, 32)),
        ...base64.map((b) => Buffer.from(b)),
      ]
    }),
  )
  return readdirSync(directory).filter((name) => holds(readFileSync(join(directory, name))))
}

/** Looks for many pieces at once, by their first 6 bytes: a search for each by itself takes minutes. */
function searchFor(pieces: readonly Buffer[]): (content: Buffer) => boolean {
  const byStart = Map.groupBy(pieces, (piece) => piece.readUIntBE(0, 6))
  return (content) => {
    for (let at = 0; at + 6 <= content.length; at++) {
      const known = byStart.get(content.readUIntBE(at, 6))
      if (known?.some((piece) => content.subarray(at, at + piece.length).equals(piece))) return true
    }
    return false
  }
}

export const unpredictable = (length: number): Uint8Array => new Uint8Array(randomBytes(length))
