/**
 * The actions of commands on approvals. A request is followed by its id from call to call, also if the process that
 * holds the agent was restarted meanwhile.
 */
import { StaticError } from '@static/protocol'
import type { Approval, ApprovalDecision, Channel, StaticChannelManager } from '@static/sdk'
import { type SenderSummary, senderNow } from './members.ts'

export interface DecisionSummary {
  readonly member: SenderSummary
  readonly choice: 'approve' | 'deny'
  /** By its own clock. */
  readonly time: string
  /** Whether a passphrase was typed, as its program says. */
  readonly attended: boolean
}

export interface ApprovalSummary {
  readonly id: string
  readonly asker: SenderSummary
  /** Whether this agent asks. */
  readonly own: boolean
  readonly state: Approval['state']
  /** Of an own one: whether its permission is used. */
  readonly used?: boolean
  readonly deadline: string
  readonly need: number
  /** Agent ids. */
  readonly from: readonly string[]
  readonly decisions: readonly DecisionSummary[]
  /** The asker's words. */
  readonly title: string
  readonly text: string
  readonly risk: string
  /** Base64. */
  readonly action: string
}

/** What is asked for. */
export interface ApprovalWords {
  readonly title: string
  readonly text: string
  readonly risk: string
  /** Base64. */
  readonly action: string
}

/** How far a request of this agent is. */
export interface ApprovalProgress {
  readonly decisions: readonly DecisionSummary[]
  /** Once it is over. Only `approved` is permission, and has the action. */
  readonly over?: {
    readonly decision: 'approved' | 'denied' | 'expired'
    readonly by: readonly DecisionSummary[]
    readonly record: string
    /** Base64. */
    readonly action?: string
  }
}

/** A request that a command waits for. */
interface Waiting {
  readonly approval: Approval
  readonly end: Promise<NonNullable<ApprovalProgress['over']>>
  /** Whether a command has got the end. */
  isGiven: boolean
}

const MS = 1000
/** The requests of each manager until their command has heard the end. */
const WAITING = new WeakMap<StaticChannelManager, Map<string, Waiting>>()

/** Asks; resolves with the id once the relay has stored the request. */
export async function startApproval(
  manager: StaticChannelManager,
  name: string,
  { title, text, risk, action }: ApprovalWords,
  options: { readonly from: readonly string[]; readonly need: number; readonly timeout: number },
): Promise<string> {
  const channel = manager.client.channel(name)
  const asked = Promise.withResolvers<string>()
  const wish = { title, text, risk, action: Buffer.from(action, 'base64') }
  const result = channel.requestApproval(wish, { ...options, asked: asked.resolve })
  result.catch(asked.reject)
  const approval = findApproval(channel, await asked.promise)
  const end = result.then((found) =>
    endOf(channel, approval, found.decision, found.decision === 'approved' ? found.action : undefined),
  )
  wait(manager, approval, end)
  return approval.id
}

/** How far a request is: once there are more than so many decisions, it is over, or so many seconds have passed. */
export async function followApproval(
  manager: StaticChannelManager,
  name: string,
  id: string,
  known: number,
  seconds: number,
): Promise<ApprovalProgress> {
  const channel = manager.client.channel(name)
  const waiting = WAITING.get(manager)?.get(id) ?? resumed(manager, channel, id)
  const { approval, end } = waiting
  const events = manager.client.events()
  const late = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => late.resolve(undefined), seconds * MS)
  try {
    while (approval.decisions.length <= known) {
      const next = await Promise.race([end, late.promise, events.next()])
      if (next === undefined) break
      if ('decision' in next) {
        WAITING.get(manager)?.delete(id)
        // Two commands may wait for the same approval, which permits one execution.
        if (waiting.isGiven && next.action !== undefined)
          throw StaticError.of('not_allowed', 'The approval is used: another command has got the action. Ask again.')
        waiting.isGiven = true
        return { decisions: decisionsOf(channel, approval), over: next }
      }
      if (next.done === true) throw StaticError.of('closed', 'The agent was closed.')
    }
  } catch (error) {
    WAITING.get(manager)?.delete(id)
    throw error
  } finally {
    clearTimeout(timer)
    await events.return?.()
  }
  return { decisions: decisionsOf(channel, approval) }
}

/** The ids of the approvals of a channel, oldest first. */
export function approvalIds(manager: StaticChannelManager, name: string): readonly string[] {
  return manager.client
    .channel(name)
    .approvals()
    .map(({ id }) => id)
}

/** One approval, with all that deciding on it needs. */
export function approvalOf(manager: StaticChannelManager, name: string, id: string): ApprovalSummary {
  const channel = manager.client.channel(name)
  const approval = findApproval(channel, id)
  const { asker, isOwn, isSpent, state, deadline, need, from, title, text, risk, action } = approval
  return {
    id: approval.id,
    asker: senderNow(channel, asker),
    own: isOwn,
    state,
    ...(isOwn && { used: isSpent }),
    deadline: deadline.toISOString(),
    need,
    from,
    decisions: decisionsOf(channel, approval),
    title,
    text,
    risk,
    action: Buffer.from(action).toString('base64'),
  }
}

/** Decides, for good. */
export async function decide(
  manager: StaticChannelManager,
  name: string,
  id: string,
  choice: 'approve' | 'deny',
  attended: boolean,
): Promise<void> {
  await findApproval(manager.client.channel(name), id).decide(choice, { attended })
}

/** Of a request that an earlier process has made. */
function resumed(manager: StaticChannelManager, channel: Channel, id: string): Waiting {
  const approval = findApproval(channel, id)
  const end = async (): Promise<NonNullable<ApprovalProgress['over']>> => {
    const decision = await approval.outcome()
    return endOf(channel, approval, decision, decision === 'approved' ? await approval.spend() : undefined)
  }
  return wait(manager, approval, end())
}

function wait(manager: StaticChannelManager, approval: Approval, end: Waiting['end']): Waiting {
  // It may fail while no command asks.
  end.catch(() => {})
  const waiting = WAITING.get(manager) ?? new Map<string, Waiting>()
  WAITING.set(manager, waiting)
  const made = { approval, end, isGiven: false }
  waiting.set(approval.id, made)
  return made
}

function endOf(
  channel: Channel,
  approval: Approval,
  decision: 'approved' | 'denied' | 'expired',
  action: Uint8Array | undefined,
): NonNullable<ApprovalProgress['over']> {
  const wanted = decision === 'approved' ? 'approve' : 'deny'
  return {
    decision,
    by: decisionsOf(channel, approval).filter(({ choice }) => choice === wanted),
    record: approval.record(),
    ...(action && { action: Buffer.from(action).toString('base64') }),
  }
}

function decisionsOf(channel: Channel, { decisions }: Approval): readonly DecisionSummary[] {
  return decisions.map((decision: ApprovalDecision) => ({
    member: senderNow(channel, decision),
    choice: decision.choice,
    time: decision.decidedAt.toISOString(),
    attended: decision.attended,
  }))
}

/**
 * @throws {StaticError} `not_found`
 */
function findApproval(channel: Channel, id: string): Approval {
  const found = channel.approvals().find((approval) => approval.id === id)
  if (found) return found
  const text = `Channel ${channel.name} has no approval ${id}. \`static channel approvals\` lists those whose deadline has not come.`
  throw StaticError.of('not_found', text)
}
