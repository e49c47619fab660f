/** Reads the agent's rows: everything at once but received messages. */
import { StaticError } from '@static/protocol'
import type {
  AgentStore,
  AnsweredRecord,
  ChannelId,
  EpochRecord,
  IdentityRecord,
  OutboxRecord,
  PendingCommitRecord,
  Snapshot,
  StoredChannel,
} from '../ports.ts'
import type { ReadsOf } from './rows/table.ts'
import { IDENTITY, KEY_PACKAGE, PIN, RELAY, REMOVED } from './tables/agent.ts'
import {
  CHANNEL,
  channelRecord,
  CURRENT,
  EPOCH,
  type InChannel,
  LEAVER,
  PENDING,
  PENDING_COMMIT,
  RATCHET,
  SENDER,
  WELCOME,
} from './tables/channel.ts'
import { ATTEMPT, INVITE, JOINER } from './tables/invites.ts'
import { INBOX, OUTBOX, type OutboxRow, POISON } from './tables/messages.ts'
import { CHAIN, OWN_RECEIPT, STAY, stayRecord } from './tables/receipts.ts'

/** Reads the agent's identity. */
export function readIdentity(rowsOf: ReadsOf): IdentityRecord {
  const [row] = rowsOf(IDENTITY).all()
  if (row === undefined) throw new StaticError('store_corrupt', "The agent's database contains no identity.")
  const { identity, publicKey, secretKey } = row
  return { identity, publicKey, secretKey }
}

/** Reads everything but received messages. */
export function readSnapshot(rowsOf: ReadsOf): Snapshot {
  return {
    identity: readIdentity(rowsOf),
    keyPackages: rowsOf(KEY_PACKAGE)
      .all()
      .toSorted((a, b) => a.createdAt - b.createdAt),
    channels: readChannels(rowsOf),
    removed: rowsOf(REMOVED)
      .all()
      .toSorted((a, b) => a.at - b.at),
    pins: rowsOf(PIN).all(),
    relays: new Map(
      rowsOf(RELAY)
        .all()
        .map(({ relayName, relayId, grpcPort }) => [relayName, { relayId, grpcPort }]),
    ),
    invites: rowsOf(INVITE).all(),
    joiners: rowsOf(JOINER).all(),
    attempts: rowsOf(ATTEMPT).all(),
  }
}

/** Prepares reading the inbox of a channel after an index, in order. */
export function prepareInbox(rowsOf: ReadsOf): AgentStore['inbox'] {
  const inbox = rowsOf(INBOX)
  return (id, after, limit) =>
    inbox.page([id], after, limit).map(({ channel: _channel, bytes: _bytes, ...record }) => record)
}

/** Prepares reading what was put aside of a channel, in order. */
export function preparePoison(rowsOf: ReadsOf): AgentStore['poison'] {
  const poison = rowsOf(POISON)
  return (id) =>
    poison.page([id], 0, Number.MAX_SAFE_INTEGER).map(({ channel: _channel, bytes: _bytes, ...record }) => record)
}

function readChannels(rowsOf: ReadsOf): readonly StoredChannel[] {
  const welcomes = byChannel(rowsOf(WELCOME).all())
  const epochs = byChannel(rowsOf(EPOCH).all())
  const ratchets = byChannel(rowsOf(RATCHET).all())
  const commits = byChannel(rowsOf(PENDING_COMMIT).all())
  const senders = byChannel(rowsOf(SENDER).all())
  const leavers = byChannel(rowsOf(LEAVER).all())
  const chains = byChannel(rowsOf(CHAIN).all())
  const ownReceipts = byChannel(rowsOf(OWN_RECEIPT).all())
  const stays = byChannel(rowsOf(STAY).all())
  const messages = byChannel(rowsOf(OUTBOX).all())
  const inbox = rowsOf(INBOX).totals('bytes')
  const poison = rowsOf(POISON).totals('bytes')

  const readEpoch = (id: ChannelId, which: number): EpochRecord | undefined => {
    const found = epochs(id).find(({ pending }) => pending === which)
    if (!found) return undefined
    const rows = ratchets(id).filter(({ pending }) => pending === which)
    return { group: found.group, rows: new Map(rows.map(({ leaf, ratchet }) => [leaf, ratchet])) }
  }
  const readPending = (id: ChannelId): PendingCommitRecord | undefined => {
    const [commit] = commits(id)
    const next = readEpoch(id, PENDING)
    if (!commit || !next) return undefined
    const { pending: _pending, ...rest } = commit
    return { ...rest, next }
  }
  return rowsOf(CHANNEL)
    .all()
    .map((row) => {
      const sent = messages(row.id).toSorted((a, b) => a.counter - b.counter)
      return {
        record: channelRecord(row),
        welcome: welcomes(row.id)[0]?.welcome,
        epoch: readEpoch(row.id, CURRENT),
        pending: readPending(row.id),
        senders: senders(row.id),
        leavers: leavers(row.id),
        chain: chains(row.id),
        ownReceipt: ownReceipts(row.id)[0],
        stays: stays(row.id).map(stayRecord),
        outbox: sent.flatMap(unanswered),
        answered: sent.flatMap(answered),
        inbox: {
          messages: inbox.get(row.id)?.rows ?? 0,
          bytes: inbox.get(row.id)?.sum ?? 0,
          first: inbox.has(row.id) ? (rowsOf(INBOX).page([row.id], 0, 1)[0]?.index ?? 0) : 0,
        },
        poison: { messages: poison.get(row.id)?.rows ?? 0, bytes: poison.get(row.id)?.sum ?? 0 },
      }
    })
}

function unanswered({ ciphertext, bodyHash, ...rest }: Omit<OutboxRow, 'channel'>): readonly OutboxRecord[] {
  return ciphertext === undefined || bodyHash !== undefined ? [] : [{ ...rest, ciphertext }]
}

function answered({ messageId, counter, bodyHash }: Omit<OutboxRow, 'channel'>): readonly AnsweredRecord[] {
  return bodyHash === undefined ? [] : [{ messageId, counter, bodyHash }]
}

/** Groups rows by channel. */
function byChannel<Row extends InChannel<object>>(rows: readonly Row[]): (id: ChannelId) => Omit<Row, 'channel'>[] {
  const found = new Map<ChannelId, Omit<Row, 'channel'>[]>()
  for (const { channel, ...record } of rows) {
    const records = found.get(channel)
    if (records) records.push(record)
    else found.set(channel, [record])
  }
  return (id) => found.get(id) ?? []
}
