/** Asks other members, and answers them. */
import { type Ask, type Channel, StaticError } from '@static/sdk'
import type { Below } from '@static/testkit/random'
import type { Journal } from './journal.ts'

const MOST_OPEN = 3
/** In seconds. Jumps of a clock are shorter than the long one. */
const LONG = 100_000
const SHORT = 3
/** Codes that tell the outcome of a request. */
const ENDS = new Set(['ask_timeout', 'not_found', 'removed'])

/** The requests of an agent in one stay. */
export class Requests {
  readonly #channel: Channel
  readonly #journal: Journal
  readonly #below: Below
  readonly #self: string
  readonly #open = new Set<Promise<void>>()

  constructor(channel: Channel, journal: Journal, below: Below, self: string) {
    this.#channel = channel
    this.#journal = journal
    this.#below = below
    this.#self = self
  }

  /** Continues to read the answers to requests of earlier lives. */
  resume(): void {
    const { asks, asking } = this.#journal.memory
    const known = new Set(asks.map(({ ask }) => ask))
    const open = this.#channel.asked()
    for (const ask of open) {
      if (!known.has(ask.id) && asking) this.#journal.note({ ...asking, is: 'asked', ask: ask.id })
      this.#follow(ask)
    }
    const ids = new Set(open.map(({ id }) => id))
    for (const { ask, seconds } of asks) {
      if (ids.has(ask)) continue
      if (seconds === LONG) this.#journal.note({ is: 'unasked', ask })
      else this.#journal.note({ is: 'unanswered', ask, code: 'ask_timeout' })
    }
  }

  /** Asks some member, unless there are enough open requests. */
  ask(text: string): void {
    const others = this.#channel.members().filter(({ agentId }) => agentId !== this.#self)
    const to = others[this.#below(others.length)]?.agentId
    if (to === undefined || this.#open.size >= MOST_OPEN) return
    const seconds = this.#below(4) === 0 ? SHORT : LONG
    this.#journal.note({ is: 'asking', text, to, seconds })
    const ask = this.#channel.ask(text, { to, timeout: seconds })
    this.#journal.note({ is: 'asked', ask: ask.id, text, to, seconds })
    this.#follow(ask)
  }

  /** Answers until the channel ends. */
  async serve(): Promise<void> {
    await this.#channel.serve(async (request) => {
      this.#journal.note({ is: 'served', ask: request.messageId, text: request.text(), again: request.redelivered })
      return `${request.text()}!`
    })
  }

  /** Resolves when all its requests are over. */
  async over(): Promise<void> {
    while (this.#open.size > 0) await Promise.all(this.#open)
  }

  #follow(ask: Ask): void {
    const reading = this.#read(ask).finally(() => this.#open.delete(reading))
    this.#open.add(reading)
  }

  async #read(ask: Ask): Promise<void> {
    try {
      for await (const answer of ask) {
        const { messageId: id, sender } = answer
        this.#journal.note({ is: 'answer', ask: ask.id, id, text: answer.text(), from: sender.agentId })
      }
      this.#journal.note({ is: 'answered', ask: ask.id })
    } catch (error) {
      const { code } = StaticError.from(error)
      // The agent itself failed: its next life will learn the outcome.
      if (ENDS.has(code)) this.#journal.note({ is: 'unanswered', ask: ask.id, code })
    }
  }
}
