/** The pending joins by token, in memory and on disk, and the state of each. */
import { StaticError } from '@static/protocol'
import { inviteKeys } from '../admitting/keys.ts'
import type { AgentServices } from '../agent/services.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { same } from '../platform/bytes.ts'
import type { AttemptRecord, ChannelId } from '../ports/index.ts'
import { isEntered, isPast, type Join, type JoinEnd, joinState, type JoinState, mayMove } from './join.ts'

/** The pending joins of one agent. */
export class OpenJoins {
  readonly #agent: Pick<AgentServices, 'context' | 'keyPackages' | 'channels'>
  /** By invite. */
  readonly #joins = new Map<string, Join>()

  constructor(agent: Pick<AgentServices, 'context' | 'keyPackages' | 'channels' | 'stored'>) {
    this.#agent = agent
    for (const record of agent.stored.attempts) this.#hold(record)
  }

  [Symbol.iterator](): IterableIterator<Join> {
    return this.#joins.values()
  }

  get(invite: string): Join | undefined {
    return this.#joins.get(invite)
  }

  /** The joins to a channel, by any token. */
  on(channel: ChannelId): Join[] {
    return [...this].filter(({ record }) => record.channel === channel)
  }

  /** The joins to a channel as its owner created it. Anyone who makes a token can write any id into it. */
  alike({ channel, name, owner }: Pick<AttemptRecord, 'channel' | 'name' | 'owner'>): Join[] {
    return this.on(channel).filter(({ record }) => record.name === name && record.owner === owner)
  }

  /** The joins that lead to a channel this agent is in. */
  of({ id, name, owner }: Pick<AgentChannel, 'id' | 'name' | 'owner'>): Join[] {
    return this.alike({ channel: id, name, owner })
  }

  // ---- States ----

  /** The state of a join. */
  stateOf(join: Join): JoinState {
    return this.#derive(join, join.end)
  }

  /**
   * Records the state in which a step finds a join, and returns it. A transition missing from the table is a bug of this
   * agent: it ends only that join, the waiting calls get the error, and the application gets an event.
   */
  noteState(join: Join): JoinState {
    const state = this.stateOf(join)
    if (!mayMove(join.seen, state)) return this.#break(join, state)
    join.seen = state
    return state
  }

  /** The channel that a join has brought this agent into, until it is greeted there. */
  enteredChannel(join: Join): AgentChannel | undefined {
    return isEntered(this.#derive(join, undefined)) ? this.#agent.channels.get(join.record.channel) : undefined
  }

  /** The channel of a token, if this agent has joined it: by an offer, or by another token. */
  joinedChannel(join: Join): AgentChannel | undefined {
    return this.#derive(join, undefined) === 'withdrawn' ? this.#agent.channels.get(join.record.channel) : undefined
  }

  /** Whether a Welcome for the request is here that cannot be used yet. */
  hasWelcome({ record }: Join): boolean {
    return this.alike(record).some(({ cancelEntry }) => cancelEntry !== undefined)
  }

  /**
   * Whether the invite expired before this agent was added. A member's Welcome may have been waiting at the relay since
   * then.
   */
  hasExpired(join: Join): boolean {
    if (this.enteredChannel(join) || this.hasWelcome(join)) return false
    return isPast(join.record, this.#agent.context.now())
  }

  /** Whether this agent has entered a channel but has no join to it left, so it would never be greeted. */
  isAbandoned(held: AgentChannel): boolean {
    return held.state === 'joining' && this.of(held).length === 0
  }

  #derive(join: Join, end: JoinEnd | undefined): JoinState {
    const { record } = join
    const channel = this.#agent.channels.get(record.channel)
    return joinState({ record, channel, hasWelcome: this.hasWelcome(join), end, now: this.#agent.context.now() })
  }

  // ---- Changes ----

  begin(record: AttemptRecord): Join {
    this.#agent.context.journal.add({ type: 'putAttempt', record })
    return this.#hold(record)
  }

  /** From now on, asks with another request, or stops asking. */
  change(join: Join, fields: Partial<Pick<AttemptRecord, 'nonce' | 'keyPackage' | 'takenBack' | 'show'>>): void {
    join.record = { ...join.record, ...fields }
    this.#agent.context.journal.add({ type: 'putAttempt', record: join.record })
  }

  /** Ends a join. */
  end(join: Join, end: JoinEnd): void {
    if (join.end !== undefined) return
    if (!mayMove(join.seen, end)) this.#break(join, end)
    else this.#forget(join, end)
  }

  /** Rejects the waiting calls. The same token can be tried again. */
  fail({ waiting }: Join, error: StaticError): void {
    for (const { reject } of waiting) reject(error)
  }

  #break(join: Join, to: JoinState): 'broken' {
    const { name } = join.record
    const text = `The join to channel ${name} went from ${join.seen} to ${to}. Please report this bug.`
    const error = StaticError.of('internal_error', text)
    this.#forget(join, 'broken')
    this.fail(join, error)
    this.#agent.context.emit({ type: 'welcome_refused', channel: name, error })
    return 'broken'
  }

  /** Forgets a join, and its request unless another token shares it. */
  #forget(join: Join, end: JoinEnd): void {
    const { record } = join
    join.end = end
    join.seen = end
    this.#joins.delete(record.invite)
    const isShared = this.on(record.channel).some((other) => same(other.record.nonce, record.nonce))
    if (!isShared) this.#agent.keyPackages.forget(record.keyPackage)
    this.#agent.context.journal.add({ type: 'dropAttempt', invite: record.invite })
  }

  #hold(record: AttemptRecord): Join {
    const join: Join = {
      record,
      keys: inviteKeys(record.secret),
      boxKey: undefined,
      seen: undefined,
      end: undefined,
      waiting: new Set(),
      hellos: 0,
      isGreeting: false,
      cancel: undefined,
      entries: 0,
      cancelEntry: undefined,
    }
    // Two tokens with one secret: someone changed the name in one of them. The later one replaces the earlier.
    const earlier = this.#joins.get(record.invite)
    if (earlier) earlier.end = earlier.seen = 'refused'
    this.#joins.set(record.invite, join)
    return join
  }
}
