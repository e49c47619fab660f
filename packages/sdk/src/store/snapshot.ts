/** Reads the agent's rows: everything at once except received messages. */
import { StaticError } from '@static/protocol'
import type {
  AgentStore,
  AnsweredRecord,
  ChannelId,
  EpochRecord,
  IdentityRecord,
  KeptRecord,
  MessageTotals,
  OutboxRecord,
  PendingCommitRecord,
  Snapshot,
  StoredChannel,
} from '../ports/index.ts'
import type { ReadsOf, Table, Totals } from './rows/table.ts'
import { IDENTITY, KEY_PACKAGE, PIN, RELAY, REMOVED } from './tables/agent-tables.ts'
import { APPROVAL, APPROVAL_EVENT, APPROVAL_REQUEST } from './tables/approval-tables.ts'
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
} from './tables/channel-tables.ts'
import { FILE, FILE_DIGESTS, UPLOAD, UPLOAD_PART } from './tables/file-tables.ts'
import { ATTEMPT, CLAIM, INVITE, INVITE_LIST, JOINER, USE } from './tables/invite-tables.ts'
import { KEEPING, KEPT } from './tables/kept-tables.ts'
import {
  ANSWER,
  ANSWERER,
  ASK,
  INBOX,
  type InboxRow,
  OUTBOX,
  type OutboxRow,
  POISON,
  REQUEST,
} from './tables/message-tables.ts'
import { MEMBER_PROOF, OWN_PROOF } from './tables/proof-tables.ts'
import { CHAIN, OWN_RECEIPT, STAY, stayRecord } from './tables/receipt-tables.ts'

export function readIdentity(rowsOf: ReadsOf): IdentityRecord {
  const [row] = rowsOf(IDENTITY).all()
  if (row === undefined) throw new StaticError('store_corrupt', "The agent's database contains no identity.")
  const { identity, publicKey, secretKey } = row
  return { identity, publicKey, secretKey }
}

/** Reads everything except received messages. */
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
    keepingDays: rowsOf(KEEPING).all()[0]?.days,
  }
}

/** Prepares reading the inbox of a channel after an index, in order. */
export function prepareInbox(rowsOf: ReadsOf): AgentStore['inbox'] {
  return prepareReceived(rowsOf, INBOX)
}

/** Prepares reading the requests of a channel after an index, in order. */
export function prepareRequests(rowsOf: ReadsOf): AgentStore['requests'] {
  return prepareReceived(rowsOf, REQUEST)
}

/** Prepares reading the unread answers of a channel, in order. */
export function prepareAnswers(rowsOf: ReadsOf): AgentStore['answers'] {
  const answers = prepareReceived(rowsOf, ANSWER)
  return (id) => answers(id, 0, Number.MAX_SAFE_INTEGER)
}

function prepareReceived(rowsOf: ReadsOf, table: Table<InboxRow>): AgentStore['inbox'] {
  const rows = rowsOf(table)
  return (id, after, limit) => {
    const page = rows.page([id], after, limit)
    const last = page.length === limit ? page.at(-1) : undefined
    // The rest of the last message's pack.
    const rest = last ? rows.page([id, last.index], last.part, Number.MAX_SAFE_INTEGER) : []
    return [...page, ...rest].map(({ channel: _channel, bytes: _bytes, ...record }) => record)
  }
}

/** Prepares reading a channel's messages that were put aside, in order. */
export function preparePoison(rowsOf: ReadsOf): AgentStore['poison'] {
  const poison = rowsOf(POISON)
  return (id) =>
    poison.page([id], 0, Number.MAX_SAFE_INTEGER).map(({ channel: _channel, bytes: _bytes, ...record }) => record)
}

/** Prepares reading the parts of files: their hashes, and how those of an upload are encrypted. */
export function prepareFiles(rowsOf: ReadsOf): Pick<AgentStore, 'fileDigests' | 'uploadParts'> {
  const [digests, parts] = [rowsOf(FILE_DIGESTS), rowsOf(UPLOAD_PART)]
  return {
    fileDigests: (id, index) => digests.page([id], index - 1, 1).find((row) => row.index === index)?.digests,
    uploadParts: (id, fileId) =>
      parts
        .page([id, fileId], -1, Number.MAX_SAFE_INTEGER)
        .map(({ channel: _channel, fileId: _fileId, ...part }) => part),
  }
}

/** Prepares reading the kept messages of a channel before an index, the newest first. */
export function prepareKept(rowsOf: ReadsOf): Pick<AgentStore, 'kept' | 'keptSizes'> {
  const rows = rowsOf(KEPT)
  const { channel: _channel, ...columns } = KEPT.columns
  const all = Object.keys(columns) as (keyof KeptRecord)[]
  const some = ['index', 'part', 'sender', 'keptAt', 'bytes'] as const
  return {
    kept: (id, before, limit) => rows.back(all, { start: [id], before, limit }),
    keptSizes: (id, before, limit) => rows.back(some, { start: [id], before, limit }),
  }
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
  const ownProofs = byChannel(rowsOf(OWN_PROOF).all())
  const memberProofs = byChannel(rowsOf(MEMBER_PROOF).all())
  const messages = byChannel(rowsOf(OUTBOX).all())
  const asks = byChannel(rowsOf(ASK).all())
  const answerers = byChannel(rowsOf(ANSWERER).all())
  const files = byChannel(rowsOf(FILE).all())
  const uploads = byChannel(rowsOf(UPLOAD).all())
  const approvals = byChannel(rowsOf(APPROVAL).all())
  const approvalRequests = byChannel(rowsOf(APPROVAL_REQUEST).all())
  const approvalEvents = byChannel(rowsOf(APPROVAL_EVENT).all())
  const lists = byChannel(rowsOf(INVITE_LIST).all())
  const uses = byChannel(rowsOf(USE).all())
  const claims = byChannel(rowsOf(CLAIM).all())
  const [inbox, poison] = [rowsOf(INBOX).totals('bytes'), rowsOf(POISON).totals('bytes')]
  const [requests, answers] = [rowsOf(REQUEST).totals('bytes'), rowsOf(ANSWER).totals('bytes')]

  const first = (table: Table<InboxRow>, id: ChannelId): number => rowsOf(table).page([id], 0, 1)[0]?.index ?? 0
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
        ownProof: ownProofs(row.id)[0],
        memberProofs: memberProofs(row.id),
        outbox: sent.flatMap(unanswered),
        answered: sent.flatMap(answered),
        inbox: { ...messagesOf(inbox.get(row.id)), first: inbox.has(row.id) ? first(INBOX, row.id) : 0 },
        poison: messagesOf(poison.get(row.id)),
        requests: { ...messagesOf(requests.get(row.id)), first: requests.has(row.id) ? first(REQUEST, row.id) : 0 },
        answers: messagesOf(answers.get(row.id)),
        asks: asks(row.id),
        answerers: answerers(row.id),
        files: files(row.id),
        uploads: uploads(row.id),
        approvals: approvals(row.id).toSorted((a, b) => a.since - b.since),
        approvalRequests: approvalRequests(row.id),
        approvalEvents: approvalEvents(row.id).toSorted((a, b) => a.number - b.number),
        inviteList: lists(row.id)[0],
        uses: uses(row.id),
        claims: claims(row.id),
      }
    })
}

function messagesOf(totals: Totals | undefined): MessageTotals {
  return { messages: totals?.rows ?? 0, bytes: totals?.sum ?? 0 }
}

function unanswered({ ciphertext, bodyHash, ...rest }: Omit<OutboxRow, 'channel'>): readonly OutboxRecord[] {
  return ciphertext === undefined || bodyHash !== undefined ? [] : [{ ...rest, ciphertext }]
}

function answered({ messageId, counter, bodyHash }: Omit<OutboxRow, 'channel'>): readonly AnsweredRecord[] {
  return bodyHash === undefined ? [] : [{ messageId, counter, bodyHash }]
}

function byChannel<Row extends InChannel<object>>(rows: readonly Row[]): (id: ChannelId) => Omit<Row, 'channel'>[] {
  const found = new Map<ChannelId, Omit<Row, 'channel'>[]>()
  for (const { channel, ...record } of rows) {
    const records = found.get(channel)
    if (records) records.push(record)
    else found.set(channel, [record])
  }
  return (id) => found.get(id) ?? []
}
