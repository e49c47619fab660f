/**
 * Requests of other members that a model answers. Each gets a random name here, because message ids are chosen by
 * senders: one that uses the id of another's request must not get the answer to it. A name that is not open answers
 * nothing, also one from an earlier session.
 */
import { randomBytes } from 'node:crypto'
import { StaticError } from '@static/protocol'
import type { Message } from '../agent/actions.ts'
import type { OpenAgent, Served } from '../agent/open.ts'
import type { Item } from './lane.ts'

/** A request that waits for the model, or for the relay to accept its answer. */
interface OpenRequest {
  readonly channel: string
  readonly answer: PromiseWithResolvers<Uint8Array>
  /** Whether the model has answered it. */
  isAnswered: boolean
  /** Resolves to whether the relay has accepted the answer. */
  readonly over: Promise<boolean>
}

/** The requests of a channel that wait at the same time, and those of one asker. Others wait with the agent. */
const LIMITS = { concurrency: 16, perAsker: 4 } as const
const NAME_BYTES = 6

/** Puts a request in the lane of its channel. Returns a function that removes it if it is still there. */
type Deliver = (item: Item) => () => void

/** The open requests of a session. */
export class Requests {
  readonly #agent: Pick<OpenAgent, 'serve'>
  readonly #deliver: Deliver
  readonly #open = new Map<string, OpenRequest>()
  /** The names of requests whose answers could not be sent, by their places in the log: they are served again. */
  readonly #names = new Map<string, string>()
  readonly #served = new Set<string>()

  constructor(agent: Pick<OpenAgent, 'serve'>, deliver: Deliver) {
    this.#agent = agent
    this.#deliver = deliver
  }

  /** Takes the requests of a channel from now on. */
  serve(channel: string): void {
    if (this.#served.has(channel)) return
    this.#served.add(channel)
    const ended = (): void => void this.#served.delete(channel)
    // How a channel ended is told by its messages.
    this.#agent.serve(channel, (request, served) => this.#take(request, served), LIMITS).then(ended, ended)
  }

  /**
   * Answers a request. Resolves once the relay has stored the answer.
   *
   * @throws {StaticError} `not_found` if no such request is open in this channel, `send_pending` if the answer is not
   *   stored when the signal is aborted
   */
  async answer(channel: string, name: string, payload: Uint8Array, signal: AbortSignal): Promise<void> {
    const request = this.#open.get(name)
    if (request?.channel !== channel || request.isAnswered) {
      throw StaticError.of(
        'not_found',
        `Request ${JSON.stringify(name.slice(0, 60))} is not open in channel ${channel}: it was answered, was cancelled, or has expired. Use \`request\` of an entry of receive.`,
      )
    }
    request.isAnswered = true
    request.answer.resolve(payload)
    const late = Promise.withResolvers<'late'>()
    signal.addEventListener('abort', () => late.resolve('late'))
    if (signal.aborted) late.resolve('late')
    const end = await Promise.race([request.over, late.promise])
    if (end === true) return
    if (end === 'late') {
      throw StaticError.of(
        'send_pending',
        'The relay has not stored the answer yet. It is sent as soon as possible: do not answer again.',
      )
    }
    throw StaticError.of(
      'cancelled',
      'The request ended before the relay had stored the answer: it was cancelled, has expired, or the agent has left the channel.',
    )
  }

  async #take(message: Message, { signal, deadline, over }: Served): Promise<Uint8Array> {
    const place = [message.channel, message.sender.agent_id, message.index, message.message_id].join(' ')
    const before = this.#open.get(this.#names.get(place) ?? '')
    // Its answer could not be sent, and is sent again.
    if (before) return await before.answer.promise
    const name = randomBytes(NAME_BYTES).toString('hex')
    const request = { channel: message.channel, answer: Promise.withResolvers<Uint8Array>(), isAnswered: false, over }
    this.#open.set(name, request)
    this.#names.set(place, name)
    const remove = this.#deliver({
      channel: message.channel,
      message: { ...message, request: name, until: deadline.toISOString() },
      // It is settled by its answer.
      follower: { given: () => {}, settle: () => {} },
    })
    const end = (): void => {
      remove()
      this.#open.delete(name)
      this.#names.delete(place)
      request.answer.reject(StaticError.of('cancelled'))
    }
    void over.then(end)
    signal.addEventListener('abort', end)
    return await request.answer.promise
  }
}
