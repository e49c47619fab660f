/**
 * The standing of an agent in a channel, as recorded: joined or leaving, forked, broken, and its last key replacement.
 */
import { type ErrorCode, ERRORS, StaticError } from '@static/protocol'
import type { ChannelRecord } from '../ports/index.ts'
import type { AgentChannel } from './channel.ts'

/** The part of a channel's record that is held neither by its history nor by the sender. */
export type StandingRecord = Pick<
  ChannelRecord,
  | 'state'
  | 'rekeyDue'
  | 'rekeyedAt'
  | 'rekeyDeferredAt'
  | 'fork'
  | 'broken'
  | 'leafKeys'
  | 'addedBy'
  | 'offeredAt'
  | 'confirmed'
  | 'takenUnconfirmed'
  | 'enteredUnder'
>

/** The error for a channel that can no longer be used. */
export function channelError(code: ErrorCode, name: string): StaticError {
  const text = code === 'not_found' ? `Channel ${name} was deleted.` : `Channel ${name}: ${ERRORS[code].help}`
  return StaticError.of(code, text)
}

/** The error for a channel in which a member has seen a different history. */
function forked(channel: string, member: string): StaticError {
  const problem = `${member} says it has seen a different history of this channel, so this agent sends nothing.`
  const words =
    'Compare the words of `verify` with that member. If the words are equal, both have seen the same history and the member is wrong: ' +
    'have the owner remove it, or accept the fork. If they differ, the relay has shown you different histories.'
  return StaticError.of('fork_detected', `Channel ${channel}: ${problem} ${words}`)
}

/** The standing in one channel. */
export class Standing {
  readonly #channel: Pick<AgentChannel, 'name' | 'nameOf' | 'turn'>
  #record: StandingRecord
  /** The error that keeps the channel ended until the agent restarts. */
  #endedBy: StaticError | undefined

  constructor(channel: Pick<AgentChannel, 'name' | 'nameOf' | 'turn'>, record: StandingRecord) {
    const { state, rekeyDue, rekeyedAt, rekeyDeferredAt, fork, broken, leafKeys } = record
    const { addedBy, offeredAt, confirmed, takenUnconfirmed, enteredUnder } = record
    const keys = { rekeyDue, rekeyedAt, rekeyDeferredAt, leafKeys }
    const owners = { confirmed, takenUnconfirmed, enteredUnder }
    this.#record = { state, ...keys, fork, broken, addedBy, offeredAt, ...owners }
    this.#channel = channel
  }

  get record(): StandingRecord {
    return this.#record
  }

  /** Why the channel cannot continue, if it cannot. */
  get failure(): StaticError | undefined {
    const { state, broken } = this.#record
    if (this.#endedBy) return this.#endedBy
    const code = broken === undefined || Object.hasOwn(ERRORS, broken) ? (broken as ErrorCode | undefined) : 'mls_error'
    if (code !== undefined) return channelError(code, this.#channel.name)
    return state === 'ended' ? channelError('removed', this.#channel.name) : undefined
  }

  /**
   * Whether messages are sent. An agent that joins with an invite says hello before it has fully joined, even in a
   * fork: its application has no channel yet and cannot decide, so a member could keep it out permanently.
   */
  get isTalking(): boolean {
    const { state, fork } = this.#record
    return state === 'joining' || (state === 'joined' && fork === undefined)
  }

  /** Why nothing can be sent or committed, if nothing can. */
  refusal(despiteFork: boolean = false): StaticError | undefined {
    const { fork } = this.#record
    if (fork === undefined || despiteFork) return this.failure
    return this.failure ?? forked(this.#channel.name, this.#channel.nameOf(fork))
  }

  set(changes: Partial<StandingRecord>): void {
    this.#record = { ...this.#record, ...changes }
    this.#channel.turn.touch()
  }

  /** Ends the channel. The first error stays if called again. */
  end(error: StaticError): void {
    this.#endedBy ??= error
  }
}
