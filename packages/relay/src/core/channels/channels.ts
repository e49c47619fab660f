/** Requests about channels. Fields and signatures are checked here; the store decides everything else. */
import type { ResumeRequest } from '@static/protocol/relay'
import type { AgentId, ChannelId } from '../../ports.ts'
import type { PendingRequest, RequestBody } from '../requests/pending-request.ts'
import type { Quota } from '../accounts/quota.ts'
import type { Session, Stream } from '../sessions/stream.ts'
import { Commits } from './commits.ts'
import { allowMemberEnvelopes, type ChannelContext } from './context.ts'
import { KeyPackages } from './key-packages.ts'
import { Messages } from './messages.ts'
import { Receipts } from './receipts.ts'
import { Resumes } from './resume.ts'
import { createChannel, deleteChannel, leaveChannel } from './roster.ts'

/** A request about channels that does not need a session. */
export type ChannelRequest = Extract<
  RequestBody,
  {
    case:
      | 'createChannel'
      | 'deleteChannel'
      | 'leave'
      | 'uploadKeyPackage'
      | 'addMember'
      | 'sendCommit'
      | 'rejectCommit'
      | 'liftBar'
      | 'vouch'
      | 'resetRoster'
      | 'sendWelcome'
      | 'sendMessage'
      | 'ack'
  }
>

/** The channel operations of one node. */
export class Channels {
  readonly keyPackages: KeyPackages
  readonly receipts: Receipts
  readonly #context: ChannelContext
  readonly #commits: Commits
  readonly #messages: Messages
  readonly #resumes: Resumes

  constructor(context: ChannelContext, quota: Quota) {
    this.#context = context
    this.keyPackages = new KeyPackages(context)
    this.#commits = new Commits(context, quota)
    this.#messages = new Messages(context, quota)
    this.receipts = new Receipts({ ...context, storeAll: () => this.#resumes.storeAll() })
    this.#resumes = new Resumes(context, this.receipts, (channel, account) =>
      this.#messages.rememberPayer(channel, account),
    )
  }

  get throttledCommits(): number {
    return this.#commits.throttled
  }

  handle(request: PendingRequest, body: ChannelRequest): void {
    switch (body.case) {
      case 'sendMessage':
        return this.#messages.send(request, body.value)
      case 'ack':
        return this.#resumes.acknowledge(request, body.value)
      case 'createChannel':
        return createChannel(this.#context, request, body.value)
      case 'deleteChannel':
        return deleteChannel(this.#context, request, body.value)
      case 'leave':
        return leaveChannel(this.#context, request, body.value)
      case 'uploadKeyPackage':
        return this.keyPackages.upload(request, body.value)
      case 'addMember':
        return this.keyPackages.claim(request, body.value)
      case 'sendCommit':
        return this.#commits.send(request, body.value)
      case 'rejectCommit':
        return this.#commits.reject(request, body.value)
      case 'liftBar':
        return this.#commits.liftBar(request, body.value)
      case 'vouch':
        return this.#commits.vouch(request, body.value)
      case 'resetRoster':
        return this.#commits.resetRoster(request, body.value)
      case 'sendWelcome':
        return this.#commits.welcome(request, body.value)
    }
  }

  /** Without a session, as in a unary call, it returns the standings but starts no deliveries. */
  resume(request: PendingRequest, session: Session | undefined, value: ResumeRequest): void {
    if (session) this.#resumes.resume(request, session, value)
    else this.#resumes.standings(request, value)
  }

  /** An acknowledgement in its own cell, without a response. Throws if it is invalid. */
  acknowledge(session: Session, value: Extract<ChannelRequest, { case: 'ack' }>['value']): void {
    this.#resumes.acknowledgeLater(session, value)
  }

  /** The session has ended: stores its acknowledgements. */
  closed(session: Session): void {
    this.#resumes.closed(session)
  }

  /** The stream has ended, with or without a session: forgets what waits on it. */
  gone(stream: Stream): void {
    this.#resumes.gone(stream)
  }

  /** Called when an agent has been added to a channel. */
  welcomed(agent: AgentId): void {
    allowMemberEnvelopes(this.#context, agent)
  }

  /** Drops cached data of a deleted channel. */
  forget(channel: ChannelId): void {
    this.#messages.forget(channel)
    this.#commits.forget(channel)
  }

  tick(): void {
    this.#resumes.tick()
    this.receipts.tick()
    this.#commits.tick()
  }
}
