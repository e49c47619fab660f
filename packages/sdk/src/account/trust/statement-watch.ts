/**
 * Looks after the statements that an agent holds (SPEC.md, 7.5), whether or not it shows them: renews those that are
 * about to end where the key of their domain is on this machine, and otherwise tells the application in time.
 */
import { isEnding, renewed } from './sources.ts'
import { type HeldStatement, heldStatements } from './statements-file.ts'

export interface WatchSettings {
  /** The directories of the agent and of the keys of domains. */
  readonly dataDir: string
  readonly domains: string
}

export interface WatchPorts {
  now(): number
  /** Runs an action after a delay. Returns a function that cancels it. */
  later(milliseconds: number, action: () => void): () => void
  /** A statement is about to end, or has ended, and this agent cannot renew it. Told once. */
  ending(statement: Pick<HeldStatement, 'domain' | 'expiresAt'>): void
}

const SOON_MS = 60_000
const HOUR_MS = 3_600_000

export class StatementWatch {
  readonly #settings: WatchSettings
  readonly #ports: WatchPorts
  /** The statements of which the application was told. */
  readonly #told = new Set<string>()
  #cancel: (() => void) | undefined

  constructor(settings: WatchSettings, ports: WatchPorts) {
    this.#settings = settings
    this.#ports = ports
  }

  /** Looks in a minute, when the application listens, and then every hour. */
  start(): void {
    this.#plan(SOON_MS)
  }

  /** Never rejects. */
  async look(): Promise<void> {
    this.#plan(HOUR_MS)
    const { dataDir } = this.#settings
    try {
      // One after the other: each renewal writes the same file.
      for (const held of heldStatements(dataDir)) await this.#look(held) // oxlint-disable-line eslint/no-await-in-loop
    } catch {
      // The agent says so when it is to show its proof, and `static doctor` does; the next hour tries again.
    }
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #plan(milliseconds: number): void {
    this.#cancel?.()
    this.#cancel = this.#ports.later(milliseconds, () => void this.look())
  }

  async #look(held: HeldStatement): Promise<void> {
    const { dataDir, domains } = this.#settings
    const now = this.#ports.now()
    if (!isEnding(held, now) || this.#told.has(held.id)) return
    const isRenewed = (await renewed(dataDir, held, domains, now)) !== held.jwt
    if (isRenewed || this.#cancel === undefined) return
    this.#told.add(held.id)
    this.#ports.ending(held)
  }
}
