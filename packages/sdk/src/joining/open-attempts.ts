/** The joins by token that are in progress, in memory and on disk. */
import { same } from '../platform/bytes.ts'
import type { AgentServices } from '../agent/services.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { AttemptRecord, ChannelId } from '../ports/index.ts'
import type { Attempt } from './attempt.ts'
import { inviteKeys } from '../admitting/keys.ts'

/** Those of one agent. */
export class OpenAttempts {
  readonly #agent: Pick<AgentServices, 'context' | 'keyPackages' | 'channels'>
  /** By invite. */
  readonly #attempts = new Map<string, Attempt>()

  constructor(agent: Pick<AgentServices, 'context' | 'keyPackages' | 'channels' | 'stored'>) {
    this.#agent = agent
    for (const record of agent.stored.attempts) this.#hold(record)
  }

  [Symbol.iterator](): IterableIterator<Attempt> {
    return this.#attempts.values()
  }

  get(invite: string): Attempt | undefined {
    return this.#attempts.get(invite)
  }

  /** Those to a channel, by several tokens. */
  on(channel: ChannelId): Attempt[] {
    return [...this].filter(({ record }) => record.channel === channel)
  }

  /** Those to a channel as its owner made it. Who makes a token can write any id into it. */
  alike({ channel, name, owner }: Pick<AttemptRecord, 'channel' | 'name' | 'owner'>): Attempt[] {
    return this.on(channel).filter(({ record }) => record.name === name && record.owner === owner)
  }

  /** Those that lead to a channel that this agent is in. */
  of({ id, name, owner }: Pick<AgentChannel, 'id' | 'name' | 'owner'>): Attempt[] {
    return this.alike({ channel: id, name, owner })
  }

  /** The channel of a token, if this agent is in it: `joining` until the owner has answered. */
  held({ record }: Attempt, state: 'joining' | 'joined'): AgentChannel | undefined {
    const held = this.#agent.channels.get(record.channel)
    const isMeant = held?.name === record.name && held.owner === record.owner
    return isMeant && held.state === state && !held.failure ? held : undefined
  }

  /** Whether a Welcome to the request is here that cannot be used for the moment. */
  isWelcomed({ record }: Attempt): boolean {
    return this.alike(record).some(({ cancelEntry }) => cancelEntry !== undefined)
  }

  /** Whether this agent has entered a channel to which it has no attempt any more: it would never be greeted. */
  isAbandoned(held: AgentChannel): boolean {
    return held.state === 'joining' && this.of(held).length === 0
  }

  /** Whether a join is still to be done. By another token, it may have been meanwhile. */
  isOpen(attempt: Attempt): boolean {
    return this.#attempts.get(attempt.record.invite) === attempt
  }

  begin(record: AttemptRecord): Attempt {
    this.#agent.context.journal.add({ type: 'putAttempt', record })
    return this.#hold(record)
  }

  /** Asks with another request from now on, or no longer. */
  change(attempt: Attempt, fields: Partial<Pick<AttemptRecord, 'nonce' | 'keyPackage' | 'takenBack'>>): void {
    attempt.record = { ...attempt.record, ...fields }
    this.#agent.context.journal.add({ type: 'putAttempt', record: attempt.record })
  }

  /** Ends a join, and forgets its request unless another token shares it. */
  drop({ record }: Attempt): void {
    this.#attempts.delete(record.invite)
    const isShared = this.on(record.channel).some((other) => same(other.record.nonce, record.nonce))
    if (!isShared) this.#agent.keyPackages.forget(record.keyPackage)
    this.#agent.context.journal.add({ type: 'dropAttempt', invite: record.invite })
  }

  #hold(record: AttemptRecord): Attempt {
    const keys = inviteKeys(record.secret)
    const attempt: Attempt = {
      record,
      keys,
      waiting: new Set(),
      hellos: 0,
      isGreeting: false,
      cancel: undefined,
      entries: 0,
      cancelEntry: undefined,
    }
    this.#attempts.set(record.invite, attempt)
    return attempt
  }
}
