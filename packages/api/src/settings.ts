/** Every setting that an operator can tune, with its default (SPEC.md lists the same numbers). */
import { availableParallelism } from 'node:os'
import { type Mode, overlaySettings, type Plan } from '@static/protocol'

/** At most `limit` in a window of `seconds`. */
export interface Rate {
  readonly limit: number
  readonly seconds: number
}

/** A number for each plan. `test` applies to test keys on every plan; `null` means unlimited. */
export type PerPlan = Readonly<Record<Plan | 'test', number | null>>

/** The tunable numbers. */
export interface Settings {
  /** Cost of one Argon2id run, how many run at once and how many may wait in the queue. */
  readonly argon2: {
    readonly memoryKib: number
    readonly passes: number
    readonly lanes: number
    readonly concurrency: number
    readonly queue: number
  }
  readonly rates: {
    readonly account: Rate
    readonly tokens: Rate
    readonly keyCreations: Rate
    readonly signups: Rate
    readonly failures: Rate
    readonly passwordsPerAddress: Rate
    readonly passwords: Rate
    readonly passwordsPerDevice: Rate
    readonly passwordsOfDevices: Rate
    /** The pace of attempts at passwords and links of an address beyond `failures`. */
    readonly slowedAttempts: Rate
  }
  /** Messages per UTC calendar month. */
  readonly quota: PerPlan
  /**
   * Bytes that a relay keeps in one channel, and in all channels of the account. The relay has its own limits as well.
   */
  readonly channelBytes: PerPlan
  readonly accountBytes: PerPlan
  /** Bytes of the files in all channels of the account. */
  readonly fileBytes: PerPlan
  readonly lease: { readonly chunk: number; readonly seconds: number }
  readonly keysPerAccount: number
  readonly bodyBytes: number
  readonly sessionSeconds: number
  readonly signingKeyDays: number
  /** How long an event stays in the audit log. */
  readonly auditDays: number
  readonly http: {
    readonly headersSeconds: number
    readonly requestSeconds: number
    readonly connections: number
    readonly connectionsPerAddress: number
    readonly shutdownSeconds: number
  }
  readonly cachedKeys: number
  /** How long a request waits for a connection to PostgreSQL before it is refused. */
  readonly databaseWaitSeconds: number
}

/** Each Argon2 run takes a core, and the thread that answers everyone needs one as well. */
const SPARE_CORES = Math.max(1, availableParallelism() - 1)
const MIB = 1024 * 1024
const GIB = 1024 * MIB

export const DEFAULT_SETTINGS: Settings = {
  argon2: { memoryKib: 19456, passes: 2, lanes: 1, concurrency: SPARE_CORES, queue: 16 },
  rates: {
    account: { limit: 600, seconds: 60 },
    tokens: { limit: 600, seconds: 60 },
    keyCreations: { limit: 30, seconds: 3600 },
    signups: { limit: 5, seconds: 3600 },
    failures: { limit: 20, seconds: 60 },
    passwordsPerAddress: { limit: 5, seconds: 60 },
    passwords: { limit: 20, seconds: 60 },
    passwordsPerDevice: { limit: 10, seconds: 60 },
    passwordsOfDevices: { limit: 20, seconds: 60 },
    slowedAttempts: { limit: 1, seconds: 1 },
  },
  quota: { free: 100_000, dev: 1_000_000, team: 10_000_000, enterprise: null, test: 1_000 },
  channelBytes: { free: 256 * MIB, dev: 512 * MIB, team: GIB, enterprise: null, test: 64 * MIB },
  accountBytes: { free: GIB, dev: 4 * GIB, team: 16 * GIB, enterprise: null, test: 256 * MIB },
  fileBytes: { free: 2 * GIB, dev: 8 * GIB, team: 64 * GIB, enterprise: null, test: 256 * MIB },
  lease: { chunk: 1_000, seconds: 60 },
  keysPerAccount: 100,
  bodyBytes: 16 * 1024,
  sessionSeconds: 12 * 3600,
  signingKeyDays: 30,
  auditDays: 90,
  http: {
    headersSeconds: 10,
    requestSeconds: 30,
    connections: 10_000,
    connectionsPerAddress: 1_000,
    shutdownSeconds: 10,
  },
  cachedKeys: 100_000,
  databaseWaitSeconds: 3,
}

/** Overrides the defaults with the operator's values. Throws `invalid_request` naming the first invalid one. */
export function settingsFrom(overrides: unknown): Settings {
  return overlaySettings(DEFAULT_SETTINGS, overrides, ['quota', 'channelBytes', 'accountBytes', 'fileBytes'])
}

/** A plan's limit in a mode; `null` is unlimited. */
export function limitOf(limits: PerPlan, plan: Plan, mode: Mode): number | null {
  return mode === 'test' ? limits.test : limits[plan]
}
