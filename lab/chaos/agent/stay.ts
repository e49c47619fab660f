/** A member at work: it reads, sends one by one and several at once, asks, answers, and waits for receipts. */
import { setTimeout as delay } from 'node:timers/promises'
import { type Channel, type SentMessage, StaticError } from '@static/sdk'
import type { Below } from '@static/testkit/random'
import type { Journal } from './journal.ts'
import { Requests } from './requests.ts'

const MOST_AT_ONCE = 6
const MOST_RECEIPTS = 2
const RECEIPT_SECONDS = 60
/** Errors that end a stay as they should. */
const ENDS = new Set(['removed', 'not_found', 'closed'])

/** How a member behaves. */
export interface Manner {
  readonly name: string
  readonly pauseMs: number
  readonly below: Below
  /** The agent id. */
  readonly self: string
}

/** From joining a channel, or the start of the process, to its end. */
export class Stay {
  /** Resolves with the reason when the channel has ended for this agent. */
  readonly ended: Promise<string>
  paceMs = 0
  readonly #channel: Channel
  readonly #journal: Journal
  readonly #manner: Manner
  readonly #requests: Requests
  readonly #count: () => number
  #talking: Promise<void> = Promise.resolve()
  #isTalking = false
  #isOver = false
  #receipts = 0

  constructor(channel: Channel, journal: Journal, manner: Manner, count: () => number) {
    this.#channel = channel
    this.#journal = journal
    this.#manner = manner
    this.#count = count
    this.#requests = new Requests(channel, journal, manner.below, manner.self)
    this.#requests.resume()
    this.ended = Promise.race([this.#read(), this.#requests.serve().then(() => 'closed')])
      .catch((error: unknown) => this.#ending(error))
      .finally(() => (this.#isOver = true))
  }

  talk(): void {
    if (this.#isTalking) return
    this.#isTalking = true
    this.#talking = this.#talk()
    this.#talking.catch((error: unknown) => this.#ending(error))
  }

  /** Resolves when everything it sent is stored and all its requests are over. */
  async hush(): Promise<void> {
    this.#isTalking = false
    await this.#talking
    await this.#requests.over()
  }

  async #read(): Promise<string> {
    for await (const envelope of this.#channel.envelopes()) {
      const { messageId: id, index, epoch, sender, redelivered: again } = envelope
      this.#journal.note({ is: 'read', text: envelope.text(), id, index, epoch, from: sender.agentId, again })
      if (this.paceMs > 0) await delay(this.paceMs)
    }
    return 'closed'
  }

  async #talk(): Promise<void> {
    const { below, pauseMs } = this.#manner
    while (this.#isTalking && !this.#isOver) {
      const length = below(4) === 0 ? 1 + below(MOST_AT_ONCE) : 1
      const sent = await Promise.all(Array.from({ length }, () => this.#send()))
      const last = sent.at(-1)
      if (last && this.#receipts < MOST_RECEIPTS) void this.#awaitReceipts(last)
      if (below(3) === 0) this.#ask()
      await delay(pauseMs)
    }
  }

  /** Undefined: this agent is no longer a member. */
  async #send(): Promise<SentMessage | undefined> {
    const text = `${this.#manner.name} ${this.#count()}`
    this.#journal.note({ is: 'sending', text })
    try {
      const sent = await this.#channel.send(text)
      this.#journal.note({ is: 'sent', text, id: sent.messageId, index: sent.index })
      return sent
    } catch (error) {
      const { code } = StaticError.from(error)
      this.#journal.note({ is: 'refused', text, code })
      if (!ENDS.has(code)) throw error
      this.#isOver = true
      return undefined
    }
  }

  #ask(): void {
    try {
      this.#requests.ask(`${this.#manner.name} asks ${this.#count()}`)
    } catch (error) {
      // The member has just left.
      if (!ENDS.has(StaticError.from(error).code)) throw error
    }
  }

  async #awaitReceipts(sent: SentMessage): Promise<void> {
    this.#receipts++
    try {
      const { reached, unreached } = await this.#channel.reached(sent, 'settled', { timeout: RECEIPT_SECONDS })
      const not = unreached.map(({ agentId, reason }) => `${agentId} ${reason}`)
      this.#journal.note({ is: 'reached', id: sent.messageId, by: reached, not })
    } catch (error) {
      const { code } = StaticError.from(error)
      if (code !== 'cancelled' && !ENDS.has(code)) this.#ending(error)
    } finally {
      this.#receipts--
    }
  }

  #ending(error: unknown): string {
    const { code } = StaticError.from(error)
    if (ENDS.has(code)) return code
    throw error
  }
}
