/** How a membership stands, as its record says: joined or leaving, forked, broken, and when its keys were replaced. */
import { type ErrorCode, ERRORS, StaticError } from '@static/protocol'
import type { AgentId, ChannelRecord } from '../../ports.ts'

/** The part of a channel's record that is neither in its history nor with the sender. */
export type StandingRecord = Pick<
  ChannelRecord,
  'state' | 'rekeyDue' | 'rekeyedAt' | 'fork' | 'broken' | 'leafKeys' | 'offeredBy' | 'offeredAt'
>

/** The error for a channel that cannot be used any more. */
export function channelError(code: ErrorCode, name: string): StaticError {
  const text = code === 'not_found' ? `Channel ${name} was deleted.` : `Channel ${name}: ${ERRORS[code].help}`
  return StaticError.of(code, text)
}

/** The standing of one membership. */
export class Standing {
  readonly #touch: () => void
  readonly #name: string
  #record: StandingRecord
  /** Nothing continues here in this life of the agent. */
  #endedBy: StaticError | undefined

  /** `touch` is called when there is something to write. */
  constructor(record: StandingRecord & Pick<ChannelRecord, 'name'>, touch: () => void) {
    const { state, rekeyDue, rekeyedAt, fork, broken, leafKeys, offeredBy, offeredAt } = record
    this.#record = { state, rekeyDue, rekeyedAt, fork, broken, leafKeys, offeredBy, offeredAt }
    this.#name = record.name
    this.#touch = touch
  }

  get record(): StandingRecord {
    return this.#record
  }

  /** Why nothing continues here, if so. */
  get failure(): StaticError | undefined {
    const { state, broken } = this.#record
    if (this.#endedBy) return this.#endedBy
    const code = broken === undefined || Object.hasOwn(ERRORS, broken) ? (broken as ErrorCode | undefined) : 'mls_error'
    if (code !== undefined) return channelError(code, this.#name)
    return state === 'ended' ? channelError('removed', this.#name) : undefined
  }

  /** Whether messages go out. One who joins by an invite says hello before it is in. */
  get isTalking(): boolean {
    const { state, fork } = this.#record
    return (state === 'joined' || state === 'joining') && fork === undefined
  }

  /** Why nothing can be sent or committed, if so; a fork that this member has caused is no reason. */
  refusal(despiteForkOf?: AgentId): StaticError | undefined {
    const { fork } = this.#record
    const isForked = fork !== undefined && fork !== despiteForkOf
    return this.failure ?? (isForked ? channelError('fork_detected', this.#name) : undefined)
  }

  set(changes: Partial<StandingRecord>): void {
    this.#record = { ...this.#record, ...changes }
    this.#touch()
  }

  /** The first error that ends it is the one that everybody gets. */
  end(error: StaticError): void {
    this.#endedBy ??= error
  }
}
