/** Reads the database: all but the inbox at once, the inbox by the piece. */
import { StaticError } from '@static/protocol'
import type {
  AttemptRecord,
  AnsweredRecord,
  ChannelId,
  ChannelRecord,
  EpochRecord,
  IdentityRecord,
  InboxRecord,
  InviteRecord,
  JoinerRecord,
  KeyPackageRecord,
  LeaverRecord,
  OutboxRecord,
  PendingCommitRecord,
  SenderRecord,
  Snapshot,
  StoredChannel,
} from '../ports.ts'
import type { Database } from './sqlite.ts'

/** A row of a table: values by column. */
type Row = Readonly<Record<string, unknown>>

const STATES: readonly ChannelRecord['state'][] = ['founding', 'offered', 'joining', 'joined', 'leaving', 'ended']
const JOINER_STATES: readonly JoinerRecord['state'][] = ['taken', 'added', 'here', 'gone']
const CURRENT = 0
const PENDING = 1

/** Reads who the agent is. */
export function readIdentity(database: Database): IdentityRecord {
  const [row] = rows(database, 'SELECT * FROM identity')
  if (row === undefined) throw new StaticError('store_corrupt', "The agent's database holds no identity.")
  return {
    identity: bytes(row, 'identity'),
    publicKey: bytes(row, 'public_key'),
    secretKey: bytes(row, 'secret_key'),
  }
}

/** Reads everything but the inbox. */
export function readSnapshot(database: Database): Snapshot {
  const keyPackages = rows(database, 'SELECT * FROM key_package ORDER BY created_at, ref')
  const pins = rows(database, 'SELECT * FROM pin ORDER BY owner, identity')
  const relays = rows(database, 'SELECT * FROM relay ORDER BY endpoint')
  return {
    identity: readIdentity(database),
    keyPackages: keyPackages.map(keyPackageOf),
    channels: readChannels(database),
    pins: pins.map((row) => ({
      owner: text(row, 'owner'),
      identity: bytes(row, 'identity'),
      agent: text(row, 'agent'),
    })),
    relays: new Map(relays.map((row) => [text(row, 'endpoint'), bytes(row, 'relay_id')])),
    invites: rows(database, 'SELECT * FROM invite ORDER BY id').map(inviteOf),
    joiners: rows(database, 'SELECT * FROM joiner ORDER BY channel, agent').map(joinerOf),
    attempts: rows(database, 'SELECT * FROM attempt ORDER BY invite').map(attemptOf),
  }
}

/** Prepares reading the inbox of a channel, in order, after an index. */
export function prepareInbox(
  database: Database,
): (id: ChannelId, after: number, limit: number) => readonly InboxRecord[] {
  const select = database.prepare<Row>(`
    SELECT inbox.*, ciphertext FROM inbox JOIN body ON number = body
    WHERE channel = ? AND log_index > ? ORDER BY log_index LIMIT ?
  `)
  return (id, after, limit) => select.all(id, after, limit).map(inboxOf)
}

function readChannels(database: Database): readonly StoredChannel[] {
  const welcomes = byChannel(database, 'SELECT * FROM welcome')
  const epochs = byChannel(database, 'SELECT * FROM epoch')
  const ratchets = byChannel(database, 'SELECT * FROM ratchet ORDER BY leaf')
  const pending = byChannel(database, 'SELECT * FROM pending_commit')
  const senders = byChannel(database, 'SELECT * FROM sender ORDER BY agent')
  const leavers = byChannel(database, 'SELECT * FROM leaver ORDER BY agent')
  const outbox = byChannel(
    database,
    'SELECT outbox.*, ciphertext FROM outbox JOIN body ON number = body WHERE body_hash IS NULL ORDER BY counter',
  )
  const answered = byChannel(database, 'SELECT * FROM outbox WHERE body_hash IS NOT NULL ORDER BY counter')
  const inbox = byChannel(database, 'SELECT channel, sum(bytes) AS bytes FROM inbox GROUP BY channel')

  return rows(database, 'SELECT * FROM channel ORDER BY id').map((row) => {
    const id = text(row, 'id')
    const epochOf = (which: number): EpochRecord | undefined => {
      const found = epochs(id).find((epoch) => integer(epoch, 'pending') === which)
      if (found === undefined) return undefined
      const ofEpoch = ratchets(id).filter((ratchet) => integer(ratchet, 'pending') === which)
      return {
        group: bytes(found, 'mls_group'),
        rows: new Map(ofEpoch.map((ratchet) => [integer(ratchet, 'leaf'), bytes(ratchet, 'ratchet')])),
      }
    }
    const [welcome] = welcomes(id)
    const [waiting] = inbox(id)
    return {
      record: channelOf(row),
      welcome: welcome === undefined ? undefined : bytes(welcome, 'welcome'),
      epoch: epochOf(CURRENT),
      pending: pendingOf(pending(id)[0], epochOf(PENDING)),
      senders: senders(id).map(senderOf),
      leavers: leavers(id).map(leaverOf),
      outbox: outbox(id).map(outboxOf),
      answered: answered(id).map(answeredOf),
      inboxBytes: waiting === undefined ? 0 : integer(waiting, 'bytes'),
    }
  })
}

function keyPackageOf(row: Row): KeyPackageRecord {
  return {
    ref: text(row, 'ref'),
    keyPackage: bytes(row, 'key_package'),
    privatePart: bytes(row, 'private_part'),
    createdAt: integer(row, 'created_at'),
    pooled: flag(row, 'pooled'),
  }
}

function channelOf(row: Row): ChannelRecord {
  return {
    id: text(row, 'id'),
    name: text(row, 'name'),
    owner: text(row, 'owner'),
    state: channelState(row),
    position: {
      index: integer(row, 'position_index'),
      hash: bytes(row, 'position_hash'),
      slot: integer(row, 'position_slot'),
    },
    counter: integer(row, 'counter'),
    ownHash: bytes(row, 'own_hash'),
    rekeyDue: flag(row, 'rekey_due'),
    rekeyedAt: integer(row, 'rekeyed_at'),
    sentSinceRekey: integer(row, 'sent_since_rekey'),
    fork: optionalText(row, 'fork'),
    broken: optionalText(row, 'broken'),
  }
}

function channelState(row: Row): ChannelRecord['state'] {
  const state = text(row, 'state')
  return STATES.find((known) => known === state) ?? unexpected('state')
}

function pendingOf(row: Row | undefined, next: EpochRecord | undefined): PendingCommitRecord | undefined {
  if (row === undefined || next === undefined) return undefined
  return {
    messageId: bytes(row, 'message_id'),
    slot: integer(row, 'slot'),
    request: bytes(row, 'request'),
    bodyHash: bytes(row, 'body_hash'),
    next,
    purpose: text(row, 'purpose'),
  }
}

function senderOf(row: Row): SenderRecord {
  return {
    agent: text(row, 'agent'),
    counter: integer(row, 'counter'),
    ownHash: bytes(row, 'own_hash'),
    accepted: flag(row, 'accepted'),
  }
}

function leaverOf(row: Row): LeaverRecord {
  return {
    agent: text(row, 'agent'),
    publicKey: bytes(row, 'public_key'),
    slot: integer(row, 'slot'),
    signature: bytes(row, 'signature'),
  }
}

function inviteOf(row: Row): InviteRecord {
  return {
    id: text(row, 'id'),
    channel: text(row, 'channel'),
    secret: bytes(row, 'secret'),
    expiresAt: integer(row, 'expires_at'),
    maxUses: integer(row, 'max_uses'),
    uses: integer(row, 'uses'),
    returned: integer(row, 'returned'),
    revoked: flag(row, 'revoked'),
  }
}

function joinerOf(row: Row): JoinerRecord {
  const state = text(row, 'state')
  return {
    channel: text(row, 'channel'),
    agent: text(row, 'agent'),
    invite: text(row, 'invite'),
    nonce: bytes(row, 'nonce'),
    keyPackageHash: bytes(row, 'key_package_hash'),
    state: JOINER_STATES.find((known) => known === state) ?? unexpected('state'),
    since: integer(row, 'since'),
  }
}

function attemptOf(row: Row): AttemptRecord {
  return {
    invite: text(row, 'invite'),
    channel: text(row, 'channel'),
    name: text(row, 'name'),
    owner: text(row, 'owner'),
    secret: bytes(row, 'secret'),
    expiresAt: integer(row, 'expires_at'),
    nonce: bytes(row, 'nonce'),
    keyPackage: bytes(row, 'key_package'),
  }
}

function outboxOf(row: Row): OutboxRecord {
  return {
    messageId: bytes(row, 'message_id'),
    counter: integer(row, 'counter'),
    control: flag(row, 'control'),
    slot: integer(row, 'slot'),
    ciphertext: bytes(row, 'ciphertext'),
    messageKey: bytes(row, 'message_key'),
  }
}

function answeredOf(row: Row): AnsweredRecord {
  return {
    messageId: bytes(row, 'message_id'),
    counter: integer(row, 'counter'),
    bodyHash: bytes(row, 'body_hash'),
  }
}

function inboxOf(row: Row): InboxRecord {
  return {
    index: integer(row, 'log_index'),
    messageId: bytes(row, 'message_id'),
    sender: text(row, 'sender'),
    identity: bytes(row, 'identity'),
    epoch: integer(row, 'epoch'),
    receivedAt: integer(row, 'received_at'),
    ciphertext: bytes(row, 'ciphertext'),
    messageKey: bytes(row, 'message_key'),
  }
}

function rows(database: Database, sql: string): readonly Row[] {
  return database.prepare<Row>(sql).all()
}

/** One query for all channels, then a look-up. */
function byChannel(database: Database, sql: string): (id: ChannelId) => readonly Row[] {
  const found = Map.groupBy(rows(database, sql), (row) => text(row, 'channel'))
  return (id) => found.get(id) ?? []
}

function text(row: Row, column: string): string {
  return optionalText(row, column) ?? unexpected(column)
}

function optionalText(row: Row, column: string): string | undefined {
  const value = row[column]
  if (value === null) return undefined
  return typeof value === 'string' ? value : unexpected(column)
}

function integer(row: Row, column: string): number {
  const value = row[column]
  return typeof value === 'number' ? value : unexpected(column)
}

function flag(row: Row, column: string): boolean {
  return integer(row, column) !== 0
}

/** A plain Uint8Array: `slice` of a Buffer is a view, of a Uint8Array a copy, and secrets are wiped after copying. */
function bytes(row: Row, column: string): Uint8Array {
  const value = row[column]
  return value instanceof Uint8Array
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : unexpected(column)
}

/** The tables are STRICT: only a change of the file's structure behind SQLite's back leads here. */
function unexpected(column: string): never {
  throw new StaticError('store_corrupt', `The agent's database holds something else than expected in ${column}.`)
}
