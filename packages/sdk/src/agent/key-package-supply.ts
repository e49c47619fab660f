/** Keeps KeyPackages of this agent at the relay, so that others can add it while it is offline. */
import { message, StaticError } from '@static/protocol'
import { UploadKeyPackageRequestSchema } from '@static/protocol/relay'
import { POOLED } from './key-packages.ts'
import type { AgentServices } from './services.ts'

/** The minimum time between uploads, for a relay that keeps reporting none left. */
const TOP_UP_MS = 10_000
/** The number of uploads in a row, for an agent that many add at once. On average, they are that far apart. */
const MOST_UPLOADS = 8

/** The KeyPackages of one agent at the relay. */
export class KeyPackageSupply {
  readonly #agent: AgentServices
  #isBusy = false
  /** The uploads that still count, and the last report from the relay since there were too many. */
  #uploads = 0
  #reported: number | undefined

  constructor(agent: AgentServices) {
    this.#agent = agent
  }

  /** Uploads more if the relay holds too few. Only agents with an account have KeyPackages there. */
  topUp(held: number): void {
    if (!this.#agent.hasAccountSession || held >= POOLED || this.#isBusy) return
    if (this.#uploads === MOST_UPLOADS) {
      this.#reported = held
      return
    }
    this.#uploads += 1
    this.#agent.timers.later(MOST_UPLOADS * TOP_UP_MS, () => this.#expired())
    this.#isBusy = true
    this.#upload(POOLED - held).catch((error: unknown) => this.#agent.fail(StaticError.from(error)))
  }

  /** An upload no longer counts. */
  #expired(): void {
    this.#uploads -= 1
    const held = this.#reported
    this.#reported = undefined
    if (held !== undefined) this.topUp(held)
  }

  async #upload(count: number): Promise<void> {
    const { keyPackages: own, context, timers } = this.#agent
    const made = await Promise.all(Array.from({ length: count }, () => own.make(true)))
    const keyPackages = made.map(({ keyPackage }) => keyPackage)
    const value = message(UploadKeyPackageRequestSchema, { keyPackages })
    context.session.request({ case: 'uploadKeyPackage', value }, (outcome) => {
      this.#isBusy = false
      // Many may have been claimed meanwhile. If the upload failed, the next session reports how many the relay holds.
      const left = outcome.type === 'answered' && outcome.body.case === 'uploadKeyPackage' && outcome.body.value.held
      if (left !== false && left < POOLED / 2) timers.later(TOP_UP_MS, () => this.topUp(left))
    })
  }
}
