/** Keeps KeyPackages of this agent at the relay, so that others can add it while it is away. */
import { message, StaticError } from '@static/protocol'
import { UploadKeyPackageRequestSchema } from '@static/protocol/relay'
import type { RelaySession } from '../../ports.ts'
import { type KeyPackages, POOLED } from './key-packages.ts'
import type { Timers } from './timers.ts'

/** A relay that says again and again that all are taken is believed now and then. */
const TOP_UP_MS = 10_000

/** What the supply asks of its agent. */
export interface SupplyHost {
  readonly keyPackages: KeyPackages
  readonly session: Pick<RelaySession, 'request'>
  readonly timers: Timers
  /** Only agents with an account have KeyPackages at the relay. */
  readonly isGuest: boolean
  /** None can be made or stored. */
  failed(error: StaticError): void
}

/** The KeyPackages of one agent at the relay. */
export class KeyPackageSupply {
  readonly #host: SupplyHost
  #isBusy = false

  constructor(host: SupplyHost) {
    this.#host = host
  }

  /** The relay holds so many: it is given more if those are too few. */
  topUp(held: number): void {
    if (this.#host.isGuest || held >= POOLED || this.#isBusy) return
    this.#isBusy = true
    this.#upload(POOLED - held).catch((error: unknown) => this.#host.failed(StaticError.from(error)))
  }

  async #upload(count: number): Promise<void> {
    const { keyPackages: own, session, timers } = this.#host
    const made = await Promise.all(Array.from({ length: count }, () => own.make(true)))
    const keyPackages = made.map(({ keyPackage }) => keyPackage)
    const value = message(UploadKeyPackageRequestSchema, { keyPackages })
    session.request({ case: 'uploadKeyPackage', value }, (outcome) => {
      this.#isBusy = false
      // Many were taken meanwhile. If it failed: the next session tells how many the relay holds.
      const left = outcome.type === 'answered' && outcome.body.case === 'uploadKeyPackage' && outcome.body.value.held
      if (left !== false && left < POOLED / 2) timers.later(TOP_UP_MS, () => this.topUp(left))
    })
  }
}
