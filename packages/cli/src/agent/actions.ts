/**
 * The actions of commands on an agent, in this process or, through its socket, in the process that holds the agent.
 * Arguments and results are JSON, so that both work the same way.
 */
import { StaticError } from '@static/protocol'
import type {
  Admit,
  Channel,
  ChannelRequest,
  Envelope,
  InviteOptions,
  PoisonMessage,
  ReceiptLevel,
  ShowOptions,
  StaticChannelManager,
} from '@static/sdk'
import {
  approvalIds,
  approvalOf,
  type ApprovalProgress,
  type ApprovalSummary,
  decide,
  followApproval,
  startApproval,
} from './approval-actions.ts'
import {
  type AnswerSummary,
  cancelAsk,
  gatherAnswers,
  type GatheredAnswers,
  nextAnswer,
  settleAnswers,
  startAsk,
} from './ask-actions.ts'
import {
  cancelTransfer,
  dropFile,
  type FileSummary,
  filesOf,
  type OfferedFile,
  offeredFile,
  startSave,
  startSend,
  startSendFrom,
  type TransferState,
  transferState,
} from './file-actions.ts'
import { findMember, memberOrAgent, type MemberSummary, membersOf, type SenderSummary, senderOf } from './members.ts'
import {
  type MissingSummary,
  reachedBy,
  reachedOrMissing,
  type ReachedSummary,
  receiptsOf,
  type ReceiptSummary,
} from './receipt-actions.ts'

/** How long `list` and `members` wait to catch up with the relay; after that they show the last known state. */
const LIST_TIMEOUT_MS = 3000
/** How long `verify` waits to catch up; it needs the current state, so a timeout is an error. */
const VERIFY_TIMEOUT_MS = 10_000
/** How long `watchMembers` waits for a change before it answers anyway. */
const WATCH_MS = 20_000

export interface ChannelSummary {
  readonly name: string
  readonly channel_id: string
  /** Fingerprint of the owner. */
  readonly owner: string
  /** Whether the owner has sent anything since this agent joined. */
  readonly confirmed: boolean
  /** Whether this agent owns the channel. */
  readonly own: boolean
  /** Null if the channel has failed on this agent. */
  readonly members: number | null
  /** The error code of that failure. */
  readonly error?: string
  /** The relay did not answer in time: this is what the agent last knew. */
  readonly stale?: true
}

export interface InviteSummary {
  readonly id: string
  readonly admit: Admit
  readonly state: 'open' | 'used_up' | 'expired' | 'revoked'
  readonly uses: number
  readonly max_uses: number
  readonly expires_at: string
}

/** A message, as `listen --json` prints it. */
export interface Message {
  readonly channel: string
  readonly index: number
  readonly message_id: string
  readonly epoch: number
  readonly time: string
  readonly redelivered: boolean
  readonly sender: SenderSummary
  /** Base64. */
  readonly payload: string
  /** The file that it sends. */
  readonly file?: OfferedFile
}

export interface SentMessage {
  readonly message_id: string
  readonly index: number
}

/** A message that was put aside, without its payload. */
export interface PoisonSummary {
  readonly index: number
  readonly message_id: string
  readonly time: string
  readonly sender: Message['sender']
  readonly bytes: number
  readonly attempts: number
  readonly reason: string
  readonly put_aside_at: string
}

/** A process that has an agent open. */
export interface Holder {
  readonly pid: number
  /** The command, such as `static channel listen`. */
  readonly command: string
}

/** Reasons are shortened so that the longest list fits into one answer of the socket. */
const MOST_REASON_LETTERS = 200

/** The actions by name; each takes the agent, then the arguments of the command. */
export const ACTIONS = {
  /** Asks the member given by identity, agent id or its first digits, or all (''). Resolves to the request's id. */
  async ask(
    manager: StaticChannelManager,
    name: string,
    payload: string,
    member: string,
    timeout: number,
  ): Promise<string> {
    await catchUp(manager.client.channel(name), LIST_TIMEOUT_MS)
    return startAsk(manager, name, { payload: Buffer.from(payload, 'base64'), member, timeout })
  },

  /** The next answer to a request of this agent; null at the end. */
  async nextAnswer(manager: StaticChannelManager, name: string, id: string): Promise<AnswerSummary | null> {
    return await nextAnswer(manager, name, id)
  },

  /** The answers that have arrived, or that arrive within so many seconds; settles none of them. */
  async gather(manager: StaticChannelManager, name: string, id: string, wait: number): Promise<GatheredAnswers> {
    return await gatherAnswers(manager, name, id, wait)
  },

  /** Settles the oldest answers to a request, if they are at these places. */
  async settleAnswers(
    manager: StaticChannelManager,
    name: string,
    id: string,
    places: readonly string[],
  ): Promise<void> {
    settleAnswers(manager, name, id, places)
  },

  async cancelAsk(manager: StaticChannelManager, name: string, id: string): Promise<void> {
    cancelAsk(manager, name, id)
  },

  async create(manager: StaticChannelManager, name: string): Promise<ChannelSummary> {
    return summary(manager, await manager.create(name))
  },

  async list(manager: StaticChannelManager): Promise<readonly ChannelSummary[]> {
    const channels = manager.channels()
    const ends = await Promise.all(channels.map((channel) => catchUp(channel, LIST_TIMEOUT_MS)))
    return channels.map((channel, at) => summary(manager, channel, ends[at]))
  },

  /** The names of the agent's channels, without waiting for the relay. */
  async names(manager: StaticChannelManager): Promise<readonly string[]> {
    return manager.channels().map(({ name }) => name)
  },

  /** The process that has the agent open. */
  async holder(): Promise<Holder> {
    return { pid: process.pid, command: commandOf(process.argv) }
  },

  async members(manager: StaticChannelManager, name: string): Promise<readonly MemberSummary[]> {
    const channel = manager.client.channel(name)
    await catchUp(channel, LIST_TIMEOUT_MS)
    return membersOf(manager, channel)
  },

  /** The members as this agent knows them, without waiting for the relay. */
  async knownMembers(manager: StaticChannelManager, name: string): Promise<readonly MemberSummary[]> {
    return membersOf(manager, manager.client.channel(name))
  },

  /** Resolves to the members once they differ from those with the `known` agent ids, or after a while. */
  async watchMembers(
    manager: StaticChannelManager,
    name: string,
    known: readonly string[],
  ): Promise<readonly MemberSummary[]> {
    const channel = manager.client.channel(name)
    const events = manager.client.events()
    const late = Promise.withResolvers<undefined>()
    const timer = setTimeout(() => late.resolve(undefined), WATCH_MS)
    try {
      for (;;) {
        const members = membersOf(manager, channel)
        const isSame = members.length === known.length && members.every(({ agent_id: id }) => known.includes(id))
        if (!isSame) return members
        const next = await Promise.race([events.next(), late.promise])
        if (next === undefined) return members
        if (next.done === true) throw StaticError.of('closed', 'The agent was closed.')
      }
    } finally {
      clearTimeout(timer)
      await events.return?.()
    }
  },

  /** Vouches for the member given by identity, agent id or its first digits; resolves to that member. */
  async vouch(manager: StaticChannelManager, name: string, member: string): Promise<MemberSummary> {
    const channel = manager.client.channel(name)
    await catchUp(channel, LIST_TIMEOUT_MS)
    const found = findMember(membersOf(manager, channel), name, member)
    await channel.vouch(found.agent_id)
    return { ...found, vouched: true }
  },

  /** Names the standby of a channel, or none, and with `offered` offers it the channel; resolves to who it is. */
  async standby(
    manager: StaticChannelManager,
    name: string,
    member: string | null,
    offered: boolean,
  ): Promise<MemberSummary | null> {
    const channel = manager.client.channel(name)
    await catchUp(channel, LIST_TIMEOUT_MS)
    const found = member === null ? null : findMember(membersOf(manager, channel), name, member)
    if (found && offered) await channel.transfer(found.agent_id)
    else await channel.setStandby(found?.agent_id)
    return found
  },

  /** Makes this agent the owner of a channel; resolves to who owned it, if that is still a member. */
  async takeOver(manager: StaticChannelManager, name: string): Promise<MemberSummary | null> {
    const channel = manager.client.channel(name)
    await catchUp(channel, LIST_TIMEOUT_MS)
    const former = membersOf(manager, channel).find(({ owner }) => owner)
    await channel.takeOver()
    return membersOf(manager, channel).find((member) => member.agent_id === former?.agent_id) ?? null
  },

  /** Removes the member given by identity, agent id or its first digits; resolves to that member. */
  async remove(manager: StaticChannelManager, name: string, member: string): Promise<MemberSummary> {
    const channel = manager.client.channel(name)
    await catchUp(channel, LIST_TIMEOUT_MS)
    const found = findMember(membersOf(manager, channel), name, member)
    await channel.removeMember(found.agent_id)
    return found
  },

  async acceptNewKey(manager: StaticChannelManager, name: string, identity: string, agent: string): Promise<void> {
    await manager.client.channel(name).acceptNewKey(identity, agent)
  },

  async rotate(manager: StaticChannelManager, name: string): Promise<void> {
    await manager.client.channel(name).rotate()
  },

  async invite(
    manager: StaticChannelManager,
    name: string,
    maxUses: number,
    ttl: number,
    admit: Admit,
    require: readonly string[] = [],
    replace: boolean = false,
  ): Promise<string> {
    return await manager.invite(name, { maxUses, ttl, admit, ...demandOf(require, replace) })
  },

  /**
   * An invite as a link. `endpoint`: the relay's address for other agents; if empty, the address that this agent uses.
   */
  async inviteLink(
    manager: StaticChannelManager,
    name: string,
    maxUses: number,
    ttl: number,
    admit: Admit,
    endpoint: string,
    require: readonly string[] = [],
    replace: boolean = false,
  ): Promise<string> {
    return await manager.inviteLink(name, {
      maxUses,
      ttl,
      admit,
      ...demandOf(require, replace),
      ...(endpoint === '' ? {} : { endpoint }),
    })
  },

  async invites(manager: StaticChannelManager, name: string): Promise<readonly InviteSummary[]> {
    return manager.invites(name).map(({ id, admit, state, uses, maxUses, expiresAt }) => ({
      id,
      admit,
      state,
      uses,
      max_uses: maxUses,
      expires_at: expiresAt.toISOString(),
    }))
  },

  async revokeInvite(manager: StaticChannelManager, tokenOrId: string): Promise<void> {
    await manager.revokeInvite(tokenOrId)
  },

  /** `show`: the issuer whose proof the agent shows; empty for none. */
  async join(
    manager: StaticChannelManager,
    name: string,
    token: string,
    timeout: number,
    show: string = '',
  ): Promise<ChannelSummary> {
    return summary(manager, await manager.joinWithToken(name, token, timeout, shownBy(show)))
  },

  async joinLink(
    manager: StaticChannelManager,
    link: string,
    timeout: number,
    show: string = '',
  ): Promise<ChannelSummary> {
    return summary(manager, await manager.joinWithLink(link, timeout, shownBy(show)))
  },

  /** Sends base64 payloads in this order; resolves when the relay has stored all of them. `timeout` 0: no limit. */
  async send(
    manager: StaticChannelManager,
    name: string,
    payloads: readonly string[],
    timeout: number,
  ): Promise<readonly SentMessage[]> {
    const channel = manager.client.channel(name)
    const limit = timeout > 0 ? { timeout } : {}
    const sent = await Promise.all(payloads.map((payload) => channel.send(Buffer.from(payload, 'base64'), limit)))
    return sent.map(({ messageId, index }) => ({ message_id: messageId, index }))
  },

  /** The files that were neither saved nor dropped. */
  async files(manager: StaticChannelManager, name: string): Promise<readonly FileSummary[]> {
    await catchUp(manager.client.channel(name), LIST_TIMEOUT_MS)
    return filesOf(manager, name)
  },

  /** Begins to send the file at an absolute path; resolves to the id of the transfer. */
  startSend(manager: StaticChannelManager, name: string, path: string, as: string, type: string, text: string): string {
    return startSend(manager, name, path, { name: as, type, text })
  },

  /** Begins to send a file below a directory, whatever the path says; resolves to the id of the transfer. */
  async startSendFrom(
    manager: StaticChannelManager,
    name: string,
    root: string,
    path: string,
    type: string,
    text: string,
  ): Promise<string> {
    return await startSendFrom(manager, name, { root, path }, { type, text })
  },

  /** Begins to save the file of the message at an index under an absolute path; resolves to the id of the transfer. */
  startSave(manager: StaticChannelManager, name: string, index: number, path: string): string {
    return startSave(manager, name, index, path)
  },

  /** How far a transfer is, once it has more than so many bytes, or after so many seconds. */
  async transfer(manager: StaticChannelManager, id: string, known: number, wait: number): Promise<TransferState> {
    return await transferState(manager, id, known, wait)
  },

  cancelTransfer(manager: StaticChannelManager, id: string): void {
    cancelTransfer(manager, id)
  },

  /** Deletes a file for all members that have not saved it. */
  async deleteFile(manager: StaticChannelManager, name: string, id: string): Promise<void> {
    await manager.client.channel(name).deleteFile(id)
  },

  async dropFile(manager: StaticChannelManager, name: string, index: number): Promise<void> {
    await dropFile(manager, name, index)
  },

  /** Asks the members, given by identity, agent id or rule, for an approval of base64 bytes; resolves to its id. */
  async startApproval(
    manager: StaticChannelManager,
    name: string,
    title: string,
    text: string,
    risk: string,
    action: string,
    from: readonly string[],
    need: number,
    timeout: number,
  ): Promise<string> {
    await catchUp(manager.client.channel(name), LIST_TIMEOUT_MS)
    return await startApproval(manager, name, { title, text, risk, action }, { from, need, timeout })
  },

  /** How far it is, once there are more than so many decisions, it is over, or after so many seconds. */
  async followApproval(
    manager: StaticChannelManager,
    name: string,
    id: string,
    known: number,
    wait: number,
  ): Promise<ApprovalProgress> {
    return await followApproval(manager, name, id, known, wait)
  },

  /** The ids of what this agent may approve, and has asked for. */
  async approvals(manager: StaticChannelManager, name: string): Promise<readonly string[]> {
    await catchUp(manager.client.channel(name), LIST_TIMEOUT_MS)
    return approvalIds(manager, name)
  },

  async approval(manager: StaticChannelManager, name: string, id: string): Promise<ApprovalSummary> {
    return approvalOf(manager, name, id)
  },

  async decide(
    manager: StaticChannelManager,
    name: string,
    id: string,
    choice: 'approve' | 'deny',
    attended: boolean,
  ): Promise<void> {
    await decide(manager, name, id, choice, attended)
  },

  async receipts(manager: StaticChannelManager, name: string): Promise<readonly ReceiptSummary[]> {
    return await receiptsOf(manager, name)
  },

  async reached(
    manager: StaticChannelManager,
    name: string,
    messageId: string,
    index: number,
    level: ReceiptLevel,
    timeout: number,
  ): Promise<ReachedSummary> {
    return await reachedBy(manager, name, { messageId, index }, level, timeout)
  },

  /** Like `reached`, but resolves to the members that are missing after `timeout`. */
  async reachedOrMissing(
    manager: StaticChannelManager,
    name: string,
    messageId: string,
    index: number,
    level: ReceiptLevel,
    timeout: number,
  ): Promise<ReachedSummary | MissingSummary> {
    return await reachedOrMissing(manager, name, { messageId, index }, level, timeout)
  },

  async verify(manager: StaticChannelManager, name: string): Promise<string> {
    const channel = manager.client.channel(name)
    // Outdated words would differ from those of other members, as if the relay had lied.
    const end = await catchUp(channel, VERIFY_TIMEOUT_MS)
    if (end === 'timeout')
      throw StaticError.of(
        'unavailable',
        `The relay did not respond within ${VERIFY_TIMEOUT_MS / 1000} seconds. Try again when it is reachable.`,
      )
    if (end?.code === 'queue_full') throw end
    return channel.verify()
  },

  async acceptFork(manager: StaticChannelManager, name: string): Promise<void> {
    const channel = manager.client.channel(name)
    await catchUp(channel, LIST_TIMEOUT_MS)
    channel.acceptFork()
  },

  async rejectCommit(manager: StaticChannelManager, name: string, slot: number): Promise<void> {
    const channel = manager.client.channel(name)
    await catchUp(channel, LIST_TIMEOUT_MS)
    try {
      await channel.rejectCommit(slot)
    } catch (error) {
      if (!(error instanceof StaticError) || error.code !== 'not_found') throw error
      const problem = `Channel ${name} has no change in slot ${slot} that can still be rejected.`
      throw StaticError.of('not_found', `${problem} Use the slot that a notice of \`static channel listen\` names.`)
    }
  },

  /** Lifts the bar of a member, or of the agent with this id, which may have left; resolves to that agent. */
  async liftBar(
    manager: StaticChannelManager,
    name: string,
    member: string,
  ): Promise<Pick<SenderSummary, 'agent_id' | 'name'>> {
    const channel = manager.client.channel(name)
    await catchUp(channel, LIST_TIMEOUT_MS)
    const found = memberOrAgent(membersOf(manager, channel), name, member)
    await channel.liftBar(found.agent_id)
    return found
  },

  async leave(manager: StaticChannelManager, name: string): Promise<void> {
    await manager.client.channel(name).leave()
  },

  async resetRoster(manager: StaticChannelManager, name: string): Promise<number> {
    const channel = manager.client.channel(name)
    await channel.resetRoster()
    return channel.members().length
  },

  poisonList(manager: StaticChannelManager, name: string): readonly PoisonSummary[] {
    const channel = manager.client.channel(name)
    return channel.poison.list().map((message) => poisonSummary(channel, message))
  },

  async poisonRetry(manager: StaticChannelManager, name: string, messages: readonly string[]): Promise<void> {
    const { poison } = manager.client.channel(name)
    for (const message of messages) await poison.retry(message)
  },

  async poisonDrop(manager: StaticChannelManager, name: string, messages: readonly string[]): Promise<void> {
    const { poison } = manager.client.channel(name)
    for (const message of messages) await poison.drop(message)
  },

  /** Deletes the channel if this agent owns it; resolves to whether it does. */
  async delete(manager: StaticChannelManager, name: string): Promise<boolean> {
    const { client } = manager
    const owns = manager.channels().some((each) => each.name === name && each.owner === client.fingerprint())
    if (owns) await client.channel(name).delete()
    return owns
  },

  async fingerprint({ client }: StaticChannelManager): Promise<{ agent_id: string; fingerprint: string }> {
    return { agent_id: client.agentId, fingerprint: client.fingerprint() }
  },
} as const

export type ActionName = keyof typeof ACTIONS

type Tail<Words extends readonly unknown[]> = Words extends readonly [unknown, ...infer Rest] ? Rest : []
/** The arguments of an action, without the agent. */
export type ActionArgs<Name extends ActionName> = Tail<Parameters<(typeof ACTIONS)[Name]>>
export type ActionResult<Name extends ActionName> = Awaited<ReturnType<(typeof ACTIONS)[Name]>>

/**
 * Runs a request from the socket.
 *
 * @throws {StaticError} `invalid_request` for a malformed or unknown request
 */
export async function runAction(manager: StaticChannelManager, name: unknown, args: unknown): Promise<unknown> {
  if (typeof name !== 'string' || !Object.hasOwn(ACTIONS, name) || !isArguments(args)) {
    throw StaticError.of(
      'invalid_request',
      'The process that has this agent open does not support this request. It may run another version of Static: restart it.',
    )
  }
  const action: (manager: StaticChannelManager, ...rest: readonly unknown[]) => unknown = ACTIONS[
    name as ActionName
  ] as never
  return await action(manager, ...args)
}

/** A process and its command, for error messages. */
export function holderWords({ pid, command }: Holder): string {
  return `\`${command}\` (process ${pid})`
}

/** The command of a command line, without its arguments. */
function commandOf([, , ...words]: readonly string[]): string {
  const names = words.slice(0, words[0] === 'channel' ? 2 : 1).filter((word) => /^[a-z-]+$/.test(word))
  return ['static', ...names].join(' ')
}

/** What joiners by an invite must prove. */
function demandOf(require: readonly string[], replace: boolean): Pick<InviteOptions, 'require' | 'replace'> {
  return { replace, ...(require.length > 0 && { require }) }
}

function shownBy(show: string): ShowOptions {
  return show === '' ? {} : { show }
}

/** Converts a message or request to JSON. */
export function messageOf(channel: Channel, received: Envelope | ChannelRequest): Message {
  const { payload, sender, messageId, index, epoch, time, redelivered } = received
  return {
    channel: channel.name,
    index,
    message_id: messageId,
    epoch,
    time: time.toISOString(),
    redelivered,
    sender: senderOf(channel, epoch, sender),
    payload: Buffer.from(payload).toString('base64'),
    ...('file' in received && received.file && { file: offeredFile(received.file) }),
  }
}

function poisonSummary(channel: Channel, message: PoisonMessage): PoisonSummary {
  const { index, messageId, epoch, time, sender, payload, attempts, reason, putAsideAt } = message
  return {
    index,
    message_id: messageId,
    time: time.toISOString(),
    sender: senderOf(channel, epoch, sender),
    bytes: payload.length,
    attempts,
    reason: reason.slice(0, MOST_REASON_LETTERS),
    put_aside_at: putAsideAt.toISOString(),
  }
}

/** Waits until the agent has processed everything on the relay; resolves to the reason if it cannot. */
async function catchUp(channel: Channel, milliseconds: number): Promise<StaticError | 'timeout' | undefined> {
  const signal = AbortSignal.timeout(milliseconds)
  try {
    await channel.catchUp({ signal })
  } catch (error) {
    return signal.aborted ? 'timeout' : StaticError.from(error)
  }
  return undefined
}

function summary({ client }: StaticChannelManager, channel: Channel, end?: StaticError | 'timeout'): ChannelSummary {
  return {
    name: channel.name,
    channel_id: channel.id,
    owner: channel.owner,
    own: channel.owner === client.fingerprint(),
    confirmed: channel.confirmed,
    ...countOf(channel, end),
    ...(end === 'timeout' ? { stale: true } : {}),
  }
}

function countOf(
  channel: Channel,
  end: StaticError | 'timeout' | undefined,
): Pick<ChannelSummary, 'members' | 'error'> {
  // A full inbox is not a failure. If the relay cannot be reached, the last known state is listed.
  if (end instanceof StaticError && end.code !== 'queue_full') return { members: null, error: end.code }
  try {
    return { members: channel.members().length }
  } catch (error) {
    return { members: null, error: StaticError.from(error).code }
  }
}

function isArguments(args: unknown): args is readonly unknown[] {
  const isPlain = (value: unknown): boolean =>
    value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
  return Array.isArray(args) && args.every((value) => isPlain(value) || (Array.isArray(value) && value.every(isPlain)))
}
