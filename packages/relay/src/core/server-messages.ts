/** Builds the relay's wire messages from the store's results. */
import { create } from '@bufbuild/protobuf'
import { type ErrorCode, ERRORS, fromHex, type LeaveNoticeFields, message, StaticError } from '@static/protocol'
import {
  type ChannelState,
  ChannelStateSchema,
  CloseReason,
  type Declaration,
  type DeclarationSchema,
  DeliverMessageSchema,
  type Error as WireRefusal,
  ErrorSchema,
  type Laggard as WireLaggard,
  LaggardSchema,
  type LeaveNotice,
  LeaveNoticeSchema,
  MemberReceiptSchema,
  ReceiptBatchSchema,
  type ServerMessage,
  ServerMessageSchema,
  SessionClosingSchema,
} from '@static/protocol/relay'
import type {
  AgentId,
  BlockReason,
  ChannelId,
  Entry,
  Gap,
  Laggard,
  MemberReceipt,
  Position,
  Refusal,
  Standing,
  StoredWelcome,
  StoreEvent,
} from '../ports.ts'

/** The body of a message from the relay. */
export type Body = ServerMessage['body']

/** Why a request was refused, with what the peer needs to continue. */
export interface RefusalDetails extends Refusal {
  readonly retryAfterMs?: number
  readonly redirectPort?: number
}

/** A message from the relay; pushes have request id 0. */
export function serverMessage(body: Body, requestId = 0n, sessionToken = ''): ServerMessage {
  return message(ServerMessageSchema, { requestId, sessionToken, body })
}

/** Codes of temporary conditions: without a better estimate, retry after `RETRY_MS`. */
const TEMPORARY: readonly ErrorCode[] = ['unavailable', 'rate_limited']
const RETRY_MS = 1000

/** A refusal as a wire message. */
export function wireRefusal(refusal: RefusalDetails): WireRefusal {
  const { refused, head, lastCounter, lagging, redirectPort } = refusal
  const retryAfterMs = refusal.retryAfterMs ?? (TEMPORARY.includes(refused) ? RETRY_MS : undefined)
  return create(ErrorSchema, {
    code: refused,
    message: refusal.message ?? ERRORS[refused].help,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs: Math.max(1, Math.ceil(retryAfterMs)) }),
    ...(head === undefined ? {} : { head: BigInt(head) }),
    ...(lastCounter === undefined ? {} : { lastCounter: BigInt(lastCounter) }),
    ...(redirectPort === undefined ? {} : { redirectPort }),
    lagging: (lagging ?? []).map(wireLaggard),
  })
}

/** A member that is behind. */
export function wireLaggard({ agent, waiting }: Laggard): WireLaggard {
  return message(LaggardSchema, { agentId: fromHex(agent), waiting: BigInt(waiting) })
}

/**
 * What to tell the peer about a thrown error: its code and message if it is a StaticError, otherwise nothing specific.
 */
export function refusalOf(error: unknown): RefusalDetails {
  const known = StaticError.from(error)
  const { retryAfter } = known.details
  return {
    refused: known.code,
    message: known.message,
    ...(retryAfter === undefined ? {} : { retryAfterMs: retryAfter * 1000 }),
  }
}

/** The refusal of a request over a rate limit. */
export function tooOften(perMinute: number, what: string, retryAfterMs: number): RefusalDetails {
  const seconds = Math.ceil(retryAfterMs / 1000)
  const message = `Too many requests: the limit is ${perMinute} ${what} per minute. Retry after ${seconds} s.`
  return { refused: 'rate_limited', retryAfterMs, message }
}

/** Why the relay ends a session. */
export type Closing =
  | 'replaced'
  | 'expired'
  | 'unopened'
  | BlockReason
  | 'shutdown'
  | 'slow'
  | 'malformed'
  | 'busy'
  | 'full'
  | 'tooMany'

const CLOSINGS: Readonly<Record<Closing, readonly [CloseReason, ErrorCode, string]>> = {
  replaced: [CloseReason.REPLACED, 'closed', 'A newer session of this agent has replaced this one.'],
  expired: [CloseReason.EXPIRED, 'auth_failed', 'The token of this session has expired. Open a new session.'],
  unopened: [CloseReason.EXPIRED, 'auth_failed', 'The session was not opened in time. Connect again.'],
  account_suspended: [CloseReason.NOT_ALLOWED, 'account_suspended', ERRORS.account_suspended.help],
  account_unknown: [CloseReason.NOT_ALLOWED, 'account_unknown', ERRORS.account_unknown.help],
  shutdown: [CloseReason.SHUTDOWN, 'unavailable', 'The relay is shutting down. Reconnect.'],
  slow: [CloseReason.SLOW, 'unavailable', 'The client did not read for too long. Reconnect and resume.'],
  malformed: [CloseReason.MALFORMED, 'invalid_request', 'The relay could not parse a message from the client.'],
  busy: [CloseReason.SHUTDOWN, 'unavailable', 'The relay has no room for this session. Retry later.'],
  full: [CloseReason.FULL, 'unavailable', 'The relay has no room for this connection. Retry later.'],
  tooMany: [
    CloseReason.TOO_MANY_REQUESTS,
    'rate_limited',
    'Too many requests are open on this session. Wait for answers before sending more.',
  ],
}

/** The message that ends a session. */
export function closingMessage(closing: Closing, refusal?: RefusalDetails): ServerMessage {
  const [reason, refused, text] = CLOSINGS[closing]
  const error = wireRefusal(refusal ?? { refused, message: text })
  return serverMessage({
    case: 'sessionClosing',
    value: message(SessionClosingSchema, { reason, error }),
  })
}

/** A log entry for a reader. Its own sender already has the body, so it gets the entry without it. */
export function entryMessage(channel: Uint8Array, entry: Entry, own: boolean): ServerMessage {
  const { kind } = entry
  const common = {
    channelId: channel,
    index: BigInt(entry.index),
    sender: fromHex(entry.sender),
    acceptedAtMs: BigInt(entry.at),
  }
  switch (kind) {
    case 'message':
      return serverMessage({
        case: 'deliverMessage',
        value: message(DeliverMessageSchema, {
          ...common,
          slot: BigInt(entry.slot),
          messageId: entry.messageId,
          counter: BigInt(entry.counter),
          control: entry.control,
          ciphertext: own ? NOTHING : entry.ciphertext,
        }),
      })
    case 'commit':
      return create(ServerMessageSchema, {
        body: {
          case: 'deliverCommit',
          value: {
            ...common,
            slot: BigInt(entry.slot),
            messageId: entry.messageId,
            ...(own ? {} : { commit: entry.commit, declaration: wireDeclaration(entry.declaration) }),
          },
        },
      })
    case 'leave':
      return create(ServerMessageSchema, {
        body: { case: 'deliverLeave', value: { ...common, notice: wireNotice(entry.notice) } },
      })
  }
}

const NOTHING = new Uint8Array()

/** A Welcome for its joiner. */
export function welcomeMessage(stored: StoredWelcome): ServerMessage {
  const { welcome, inviteId, tag } = stored
  return create(ServerMessageSchema, {
    body: {
      case: 'deliverWelcome',
      value: {
        channelId: fromHex(stored.channel),
        name: stored.name,
        slot: BigInt(stored.slot),
        sender: fromHex(stored.sender),
        owner: fromHex(stored.owner),
        welcome: { agentId: fromHex(stored.agent), welcome, inviteId, tag },
        position: wirePosition(stored.position),
      },
    },
  })
}

/** Entries were deleted before this agent read them. */
export function gapMessage(channel: Uint8Array, gap: Gap): ServerMessage {
  return create(ServerMessageSchema, {
    body: {
      case: 'gap',
      value: {
        channelId: channel,
        firstIndex: BigInt(gap.first),
        position: wirePosition(gap.position),
        commitLost: gap.commitLost,
        ended: gap.ended,
        last: gap.last,
      },
    },
  })
}

export function rejectedMessage(event: Extract<StoreEvent, { type: 'rejected' }>): ServerMessage {
  return create(ServerMessageSchema, {
    body: {
      case: 'commitRejected',
      value: {
        channelId: fromHex(event.channel),
        slot: BigInt(event.slot),
        sender: fromHex(event.sender),
        undoneAdds: event.undoneAdds.map(fromHex),
        undoneRemoves: event.undoneRemoves.map(fromHex),
      },
    },
  })
}

export function receiptsMessage(channelId: Uint8Array, receipts: readonly MemberReceipt[]): ServerMessage {
  const list = receipts.map(({ agent, receipt }) => message(MemberReceiptSchema, { agentId: fromHex(agent), receipt }))
  return serverMessage({ case: 'receipts', value: message(ReceiptBatchSchema, { channelId, receipts: list }) })
}

/** An agent may commit again. */
export function barLiftedMessage(channel: ChannelId, agent: AgentId): ServerMessage {
  return create(ServerMessageSchema, {
    body: { case: 'barLifted', value: { channelId: fromHex(channel), agentId: fromHex(agent) } },
  })
}

/** The owner has reset the roster. */
export function rosterResetMessage(event: Extract<StoreEvent, { type: 'rosterReset' }>): ServerMessage {
  return create(ServerMessageSchema, {
    body: {
      case: 'rosterReset',
      value: {
        channelId: fromHex(event.channel),
        dropped: event.dropped.map(fromHex),
        returned: event.returned.map(fromHex),
      },
    },
  })
}

export function deletedMessage(channel: ChannelId, name: string): ServerMessage {
  return create(ServerMessageSchema, {
    body: { case: 'channelDeleted', value: { channelId: fromHex(channel), name } },
  })
}

export function wireStanding(
  standing: Standing | { readonly channel: ChannelId; readonly refused: ErrorCode },
): ChannelState {
  const channelId = fromHex(standing.channel)
  if ('refused' in standing) {
    // Without a message: one response can contain thousands of these.
    return create(ChannelStateSchema, { channelId, error: create(ErrorSchema, { code: standing.refused }) })
  }
  return create(ChannelStateSchema, {
    channelId,
    name: standing.name,
    owner: fromHex(standing.owner),
    head: BigInt(standing.head),
    lastIndex: BigInt(standing.lastIndex),
    lastCounter: BigInt(standing.lastCounter),
    cursor: wirePosition(standing.cursor),
    barred: standing.barred,
    guestLimit: standing.guestLimit,
    addedIndex: BigInt(standing.addedIndex),
    removed: standing.removed,
  })
}

function wirePosition({ index, hash, slot }: Position): { index: bigint; hash: Uint8Array; slot: bigint } {
  return { index: BigInt(index), hash, slot: BigInt(slot) }
}

function wireNotice({ leafKeys, ...notice }: LeaveNoticeFields): LeaveNotice {
  return message(LeaveNoticeSchema, { ...notice, leafKeys: [...leafKeys] })
}

function wireDeclaration(
  declaration: Extract<Entry, { kind: 'commit' }>['declaration'],
): NonNullable<Parameters<typeof create<typeof DeclarationSchema>>[1]> & Partial<Declaration> {
  return {
    adds: [...declaration.adds],
    removes: [...declaration.removes],
    leaveNotices: declaration.leaveNotices.map(wireNotice),
    vouches: [...declaration.vouches],
    signature: declaration.signature,
    owner: declaration.owner ?? NOTHING,
    standby: declaration.standby ?? NOTHING,
  }
}
