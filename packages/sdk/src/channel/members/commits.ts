/**
 * This agent's commits in one channel. One at a time is created, stored as pending, sent, and adopted when its entry
 * arrives in the log. If another commit takes the slot first, this one is rolled back and created again on top of the
 * winner.
 */
import { sha256 } from '#platform/crypto'
import { create } from '@bufbuild/protobuf'
import {
  commitBody,
  countedAdds,
  declarationBytes,
  fromHex,
  MAX_WELCOME_BYTES,
  maxCommitBytes,
  StaticError,
} from '@static/protocol'
import { decodeEnvelope, encodeEnvelope } from '@static/protocol/envelope'
import { type SendCommitRequest, SendCommitRequestSchema } from '@static/protocol/relay'
import { decodeRow, type CommitChange, type Epoch, type PendingCommit } from '../../mls/index.ts'
import type { ChannelId, EpochRecord, PendingCommitRecord } from '../../ports/index.ts'
import type { AgentContext } from '../../agent/context.ts'
import { newMessageId } from '../sending/message-id.ts'
import { epochRecord, type GroupState, wipeEpoch } from '../group-state.ts'

export interface CommitResult {
  /** One for each added agent. */
  readonly welcomes: PendingCommit['welcomes']
}

/** Creates the invite id and tag that accompany an agent's Welcome, from the authenticator of the new epoch. */
export type WelcomeTags = (
  agentId: Uint8Array,
  welcome: Uint8Array,
  epochAuthenticator: Uint8Array,
) => { readonly inviteId: Uint8Array; readonly tag: Uint8Array } | undefined

/** A requested commit. */
export interface CommitJob {
  /** The change to make to the current group; undefined if there is nothing left to do. */
  change(group: GroupState): Omit<CommitChange, 'now'> | undefined
  /** The tags of Welcomes for agents that join with an invite. */
  readonly tags?: WelcomeTags | undefined
  /**
   * The agents that join with invites, encoded by the layer above. Reported to it on adoption, even after a restart.
   */
  joiners?(): readonly string[]
  /** How long in total the relay may defer it; by default as long as any other commit. */
  readonly maxWaitMs?: number | undefined
  /** Whether it is a removal by the owner, allowed even if a member has seen a different history. */
  readonly isRemoval?: boolean | undefined
  /** When the relay first deferred it, if it was created again. */
  readonly deferredSince?: number | undefined
  /**
   * How often it was created again because the relay reported its slot as taken without naming the commit that took it.
   */
  readonly mismatches?: number | undefined
  done(result: CommitResult): void
  failed(error: StaticError): void
}

/** The part of a commit's job that must survive a crash. */
export interface Purpose {
  /** Whether a commit without changes must follow. */
  readonly rekeyDue: boolean
  /** Whether it only replaces the committer's keys. */
  readonly rekeys: boolean
  /** As in the job. */
  readonly joiners: readonly string[]
}

/** A commit that the relay has not accepted yet. */
export interface Pending {
  readonly record: PendingCommitRecord
  readonly request: SendCommitRequest
  readonly purpose: Purpose
  readonly next: Epoch
  /** Undefined after a restart, when no caller is waiting. */
  readonly job: CommitJob | undefined
  readonly welcomes: PendingCommit['welcomes']
  /** Sent only once it is on disk. */
  state: 'made' | 'stored' | 'sent' | 'accepted'
  /** When the relay first deferred it, and whether the application was notified. */
  deferredSince?: number | undefined
  isReported?: boolean
}

/**
 * Creates a commit. Changes only the group's state in memory (`group.use`).
 *
 * @throws {StaticError} as `MlsEngine.commit`, and `too_large` if the relay would not accept it
 */
export async function makePending(
  context: Pick<AgentContext, 'engine' | 'now' | 'random' | 'sign'>,
  id: ChannelId,
  group: GroupState,
  job: CommitJob,
  change: Omit<CommitChange, 'now'>,
  slot: number,
): Promise<Pending> {
  const { engine } = context
  const made = await engine.commit(group.group, { ...change, now: context.now() })
  const { commit, welcomes, groupInfo, declaration } = made
  group.use(made.current)
  // The GroupInfo at the end of every Welcome is sent only once.
  const secretsOf = (welcome: Uint8Array): Uint8Array => welcome.subarray(0, welcome.length - groupInfo.length)
  const shared = commit.length + groupInfo.length
  const size = welcomes.reduce((sum, { welcome }) => sum + secretsOf(welcome).length, shared)
  const isLarge = welcomes.some(({ welcome }) => welcome.length > MAX_WELCOME_BYTES)
  // Only the relay knows which members have no Welcome yet: it may still refuse a commit that is within this limit.
  const limit = maxCommitBytes(group.members.size + countedAdds(declaration.adds.length, group.isOwner))
  if (isLarge || size > limit) {
    wipeEpoch(engine, made.next, made.current)
    throw StaticError.of(
      'too_large',
      `A commit of ${size} bytes for ${welcomes.length} new members is too large. Add fewer members at once.`,
    )
  }
  const messageId = newMessageId(context)
  const authenticator = engine.facts(made.next.group).epochAuthenticator
  const channelId = fromHex(id)
  const place = { channelId, slot: BigInt(slot), messageId, commitHash: sha256(commit) }
  const signed = { ...declaration, signature: context.sign(declarationBytes(place, declaration)) }
  const request = create(SendCommitRequestSchema, {
    channelId,
    slot: BigInt(slot),
    messageId,
    commit,
    declaration: {
      adds: [...signed.adds],
      removes: [...signed.removes],
      leaveNotices: signed.leaveNotices.map(({ leafKeys, ...notice }) => ({ ...notice, leafKeys: [...leafKeys] })),
      vouches: [...signed.vouches],
      signature: signed.signature,
      ...(signed.owner && { owner: signed.owner }),
      ...(signed.standby && { standby: signed.standby }),
    },
    welcomes: welcomes.map(({ agentId, welcome }) => ({
      agentId,
      welcome: secretsOf(welcome),
      ...job.tags?.(agentId, welcome, authenticator),
    })),
    groupInfo,
  })
  const purpose: Purpose = {
    rekeyDue: made.rekeyDue,
    rekeys: !change.adds?.length && !change.removes?.length && change.removeFounder !== true,
    joiners: job.joiners?.() ?? [],
  }
  const record: PendingCommitRecord = {
    messageId,
    slot,
    request: encodeEnvelope('protobuf', SendCommitRequestSchema, request),
    bodyHash: sha256(commitBody(commit, signed)),
    next: epochRecord(engine, made.next),
    purpose: JSON.stringify(purpose),
  }
  return { record, request, purpose, next: made.next, job, welcomes, state: 'made', deferredSince: job.deferredSince }
}

/**
 * Loads a commit that was pending when the agent stopped.
 *
 * @throws {StaticError} `store_corrupt`
 */
export function loadPending(context: Pick<AgentContext, 'engine' | 'key'>, record: PendingCommitRecord): Pending {
  const { request, next } = record
  return {
    record,
    request: decodeEnvelope('protobuf', SendCommitRequestSchema, request, request.length),
    purpose: JSON.parse(record.purpose) as Purpose,
    next: loadEpoch(context, next),
    job: undefined,
    welcomes: [],
    state: 'stored',
  }
}

function loadEpoch({ engine, key }: Pick<AgentContext, 'engine' | 'key'>, { group, rows }: EpochRecord): Epoch {
  return { group: engine.decodeGroup(group, key), rows: [...rows.values()].map(decodeRow) }
}
