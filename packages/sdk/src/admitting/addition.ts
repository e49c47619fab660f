/**
 * Adds those who ask to join: all of one batch by one commit and a Welcome each. A joiner that the group refuses is found
 * by halving the commit, so it keeps out no one but itself.
 */
import { type ErrorCode, type LeaveNoticeFields, StaticError, toHex } from '@static/protocol'
import type { JoinRequest as PolledRequest } from '@static/protocol/relay'
import { same } from '../platform/bytes.ts'
import type { AgentContext } from '../agent/context.ts'
import type { GroupState } from '../channel/group-state.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { CheckedKeyPackage, CommitChange } from '../mls/index.ts'
import type { AgentId } from '../ports/index.ts'
import { type JoinRequest, openRequest } from '../joining/request.ts'
import { type AdmitKeys, type JoinPlace, welcomeTag } from './keys.ts'

/** Errors that pass: the request stays at the relay, which hands it over again with a later poll. */
export const TRANSIENT: ReadonlySet<ErrorCode> = new Set([
  'quota_exceeded',
  'queue_full',
  'rate_limited',
  'unavailable',
] satisfies ErrorCode[])

/** The refusals among these that one joiner can cause, for example with as many pending Welcomes as it may have. */
const DEFERRED: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'unavailable'] satisfies ErrorCode[])
/** How long the relay may defer a part of a commit that it has already deferred for too long. */
const PART_WAIT_MS = 5000
/** The number of such parts that may fail. Any more are left for the joiners' next requests. */
const MOST_DEFERRED = 16

/** One that asks, with all that is known of it. */
export interface Candidate extends CheckedKeyPackage, JoinRequest {
  readonly agent: AgentId
  readonly keys: AdmitKeys
  readonly request: PolledRequest
}

/** How a batch is decided. */
export interface Decision<Asking extends Candidate> {
  /**
   * Whether a candidate is still to be added, beside `others` and on top of the group as it is when the commit is made.
   * Throws why not.
   */
  isDue(each: Asking, group: GroupState, others: readonly Asking[]): boolean
  /** A candidate was not added. */
  failed(each: Asking, error: unknown): Promise<void>
  /** What is recorded with the commit. */
  joiners(chosen: readonly Asking[]): readonly string[]
  /** The notice of a candidate that has left and is still in the tree. */
  noticeOf(agent: AgentId): LeaveNoticeFields | undefined
  /** Whether the owner vouches for a candidate. Always false for other members. */
  isVouched(each: Asking): boolean
}

/**
 * Checks a request: its box, its tag and its KeyPackage.
 *
 * @throws {StaticError} `invite_invalid`, or what is wrong with the KeyPackage
 */
export async function checkCandidate(
  context: Pick<AgentContext, 'engine' | 'now'>,
  place: JoinPlace,
  keys: AdmitKeys,
  request: PolledRequest,
): Promise<Candidate> {
  const opened = openRequest(keys, place, request.box)
  if (!opened) throw StaticError.of('invite_invalid')
  const checked = await context.engine.checkKeyPackage(opened.keyPackage, context.now(), request.agentId)
  return { ...checked, ...opened, agent: toHex(checked.agentId), keys, request }
}

/**
 * Adds them by one commit. What the group or the relay does not take as a whole is tried in halves. `deferrals` counts
 * the commits so far that the relay has deferred for too long.
 */
export async function addTogether<Asking extends Candidate>(
  channel: AgentChannel,
  candidates: readonly Asking[],
  decision: Decision<Asking>,
  deferrals: { count: number } = { count: 0 },
): Promise<void> {
  const faults = new Map<Asking, unknown>()
  let chosen: readonly Asking[] = []
  const choose = (group: GroupState): Omit<CommitChange, 'now'> | undefined => {
    faults.clear()
    const due: Asking[] = []
    for (const each of candidates) {
      try {
        if (decision.isDue(each, group, due)) due.push(each)
      } catch (error) {
        faults.set(each, error)
      }
    }
    chosen = due
    return chosen.length === 0 ? undefined : changeFor(group, chosen, decision)
  }
  try {
    const byAgent = new Map(candidates.map((each) => [each.agent, each]))
    await channel.committer.commit(choose, {
      tags: (agentId, welcome, epochAuthenticator) => {
        const each = byAgent.get(toHex(agentId))
        if (!each) return undefined
        const { keys } = each
        return { inviteId: keys.inviteId, tag: welcomeTag(keys, each.keyPackage, welcome, epochAuthenticator) }
      },
      joiners: () => decision.joiners(chosen),
      ...(deferrals.count > 0 && { maxWaitMs: PART_WAIT_MS }),
    })
    for (const [each, error] of faults) await decision.failed(each, error)
  } catch (error) {
    const { code } = StaticError.from(error)
    if (code === 'closed') throw error
    const maySplit = DEFERRED.has(code) ? ++deferrals.count <= MOST_DEFERRED : !TRANSIENT.has(code)
    if (candidates.length === 1 || !maySplit) {
      await Promise.all(candidates.map((each) => decision.failed(each, error)))
      return
    }
    const half = Math.ceil(candidates.length / 2)
    await addTogether(channel, candidates.slice(0, half), decision, deferrals)
    await addTogether(channel, candidates.slice(half), decision, deferrals)
  }
}

/** An agent that lost its state returns with the same key: it is removed and added in one commit. */
function changeFor<Asking extends Candidate>(
  group: GroupState,
  candidates: readonly Asking[],
  decision: Decision<Asking>,
): Omit<CommitChange, 'now'> {
  const back = candidates.filter(({ agent, signatureKey }) => {
    const leaf = group.members.get(agent)
    return leaf !== undefined && same(leaf.signatureKey, signatureKey)
  })
  return {
    adds: candidates.map(({ keyPackage }) => keyPackage),
    removes: back.map(({ agentId }) => agentId),
    leaveNotices: back.flatMap(({ agent }) => decision.noticeOf(agent) ?? []),
    vouches: candidates.filter((each) => decision.isVouched(each)).map(({ agentId }) => agentId),
  }
}
