/**
 * Monitors whether the relay can use its API: it is reachable and trusted, accepts the credential, and its clock is
 * close to ours.
 */
import { StaticError } from '@static/protocol'
import type { ApiState } from '../ports.ts'
import type { ApiClient } from './client.ts'

const PROBE_MS = 5000
/** A clock difference worth logging: agents' tokens may fail near their expiry. */
const SKEW_TOLD_MS = 5000
/** Beyond this, the relay would judge agents' tokens and invites by a time that is plainly wrong. */
const SKEW_MAX_MS = 300_000
/** Codes of TLS errors about an untrusted certificate. */
const UNTRUSTED = /CERT|SIGNATURE|ISSUER|SELF_SIGNED|ALTNAME/

/** Where the monitor reports changes. */
export interface MonitorLog {
  warn(detail: object, message: string): void
  info(detail: object, message: string): void
}

/** Asks the API every few seconds. */
export class ApiMonitor {
  readonly #api: Pick<ApiClient, 'check' | 'keys' | 'clockOffsetMs'>
  readonly #log: MonitorLog
  #timer: NodeJS.Timeout | undefined
  #state: ApiState = { problem: 'The API has not answered yet.', clockOffsetMs: undefined }
  #isSkewed = false

  constructor(api: Pick<ApiClient, 'check' | 'keys' | 'clockOffsetMs'>, log: MonitorLog) {
    this.#api = api
    this.#log = log
  }

  get state(): ApiState {
    return this.#state
  }

  /** Probes now, then periodically. */
  start(): void {
    void this.probe()
    this.#timer = setInterval(() => void this.probe(), PROBE_MS)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Queries both listeners of the API once. */
  async probe(): Promise<void> {
    const before = this.#state.problem
    let problem: string | undefined
    try {
      await this.#api.check()
      await this.#api.keys()
      problem = clockProblem(this.#api.clockOffsetMs())
    } catch (error) {
      problem = problemOf(error)
    }
    const clockOffsetMs = this.#api.clockOffsetMs()
    this.#state = { problem, clockOffsetMs }
    this.#tellSkew(clockOffsetMs)
    if (problem === before) return
    if (problem === undefined) this.#log.info({ clockOffsetMs }, 'the API is usable')
    else this.#log.warn({ problem }, 'the relay cannot use its API and is not ready')
  }

  #tellSkew(offset: number | undefined): void {
    const isSkewed = offset !== undefined && Math.abs(offset) > SKEW_TOLD_MS
    if (isSkewed && !this.#isSkewed) this.#log.warn({ clockOffsetMs: offset }, skewText(offset))
    this.#isSkewed = isSkewed
  }
}

function clockProblem(offset: number | undefined): string | undefined {
  return offset !== undefined && Math.abs(offset) > SKEW_MAX_MS ? skewText(offset) : undefined
}

function skewText(offset: number): string {
  const seconds = Math.round(Math.abs(offset) / 1000)
  const where = offset > 0 ? 'behind' : 'ahead of'
  return `The clock of this relay is ${seconds} s ${where} the API's. Set it, for example with \`timedatectl set-ntp true\`.`
}

/** Anyone who can reach the relay can read this, so it names no address. */
function problemOf(error: unknown): string {
  const { code, details } = StaticError.from(error)
  if (code === 'invalid_request') return 'The API rejected the relay credential, or its internal URL is wrong.'
  const { code: why = '' } = (details.cause ?? {}) as NodeJS.ErrnoException
  if (UNTRUSTED.test(why)) return `The certificate of the API is not trusted (${why}). Pass its CA with --api-ca.`
  return 'The API cannot be reached.'
}
