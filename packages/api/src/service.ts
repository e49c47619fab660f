/** All rules of the API over one store: what the HTTP routes call. */
import { setTimeout as wait } from 'node:timers/promises'
import { sodium } from '@static/node/sodium'
import type { SignupMode } from '@static/protocol'
import { Accounts } from './rules/accounts.ts'
import { Audit } from './rules/audit.ts'
import type { DamageLog } from './rules/damage.ts'
import { Deletions } from './rules/deletions.ts'
import { Devices } from './rules/devices.ts'
import { Hasher } from './secrets/hash.ts'
import { Keys } from './rules/keys.ts'
import { Leases } from './rules/leases.ts'
import { type Limits, makeLimits } from './rules/limits.ts'
import { Overviews } from './rules/overviews.ts'
import { Passwords } from './rules/password.ts'
import { PasswordLinks } from './rules/password-links.ts'
import type { Clock, Store } from './ports.ts'
import { Sessions } from './rules/sessions.ts'
import { SignUpInvites } from './rules/sign-up-invites.ts'
import type { Settings } from './settings.ts'
import { KeyRing } from './secrets/signing-keys.ts'
import { DeviceSecrets } from './secrets/device-secrets.ts'
import { makeNamer } from './secrets/namer.ts'
import { makeTagger } from './secrets/tag.ts'
import { Tokens } from './rules/tokens.ts'
import { Usages } from './rules/usage.ts'
import { KeyUsageBuffer } from './rules/key-usage.ts'
import { KeyVerifier } from './rules/verify-key.ts'

const FLUSH_EVERY = 5_000
const REFRESH_EVERY = 60_000
const PRUNE_EVERY = 3600_000
const VERIFY_EVERY = 3600_000
const PRUNE_WINDOWS_EVERY = 10_000
/** The maximum number of windows of one rate limit, over all nodes. */
const MAX_WINDOWS = 100_000
const DAY = 24 * 3600_000

export interface ServiceOptions {
  readonly store: Store
  /** Unseals the signing keys. */
  readonly masterKey: Uint8Array
  readonly settings: Settings
  readonly signup: SignupMode
  /** Whether to record the addresses of clients in the audit log. */
  readonly auditAddresses: boolean
  readonly now: Clock
  /** Receives damaged rows. */
  readonly damage: DamageLog
  /** Called when a background task fails; the task is retried automatically. */
  readonly onError: (error: unknown) => void
}

/** The rules and their background tasks. */
export interface Service {
  readonly settings: Settings
  readonly now: Clock
  readonly damage: DamageLog
  readonly limits: Limits
  readonly hasher: Hasher
  readonly verifier: KeyVerifier
  readonly keyUsage: KeyUsageBuffer
  readonly ring: KeyRing
  readonly invites: SignUpInvites
  readonly accounts: Accounts
  readonly passwordLinks: PasswordLinks
  readonly audit: Audit
  readonly keys: Keys
  readonly sessions: Sessions
  readonly tokens: Tokens
  readonly usages: Usages
  readonly leases: Leases
  readonly overviews: Overviews
  readonly deletions: Deletions
  /** Settles expired leases and deletes expired rows; runs automatically every hour. */
  cleanUp(): Promise<void>
  /** Looks for damaged rows and reports them; runs automatically every hour. */
  verifyRows(): Promise<void>
  /** Saves the public address for the links that `static admin` prints. */
  savePublicUrl(url: string): Promise<void>
  /** Rejects with the database's error while the database is unusable. */
  ready(): Promise<void>
  /** Writes pending usage and closes the store. */
  close(): Promise<void>
}

/** Creates the rules and starts their background tasks. */
export async function openService(options: ServiceOptions): Promise<Service> {
  const { store, settings, now, damage, onError } = options
  const windows = store.rateWindows
  const limits = makeLimits({ rates: settings.rates, windows, nameOf: makeNamer(options.masterKey), now })
  const hasher = new Hasher(settings.argon2)
  const verifier = new KeyVerifier(store.keys, hasher, limits, makeTagger(sodium), settings.cachedKeys)
  const keyUsage = new KeyUsageBuffer(store.keys, store.usage, now)
  const lifetime = settings.signingKeyDays * DAY
  const ring = await KeyRing.open({ store: store.signingKeys, masterKey: options.masterKey, now, lifetime })
  const audit = new Audit(store.audit, options.auditAddresses, now)
  const keys = new Keys({ store, hasher, limits, audit, keyUsage, most: settings.keysPerAccount, now })
  const passwords = new Passwords(hasher, limits, audit)
  const invites = new SignUpInvites(options.signup, store.links, limits, now)
  const devices = new Devices(store.devices, new DeviceSecrets(options.masterKey), now)
  const accounts = new Accounts({ store, keys, passwords, devices, invites, limits, audit, now })
  const leases = new Leases(store, settings, now)
  await hasher.warmUp()

  const cleanUp = async (): Promise<void> => {
    await leases.sweepAll()
    await store.prune(now(), now() - settings.auditDays * DAY)
  }
  const jobs = [
    every(FLUSH_EVERY, () => keyUsage.flushDue(), onError),
    every(FLUSH_EVERY, () => audit.flush(), onError),
    every(REFRESH_EVERY, () => ring.refresh(), onError),
    every(PRUNE_EVERY, cleanUp, onError),
    every(VERIFY_EVERY, () => store.verify(), onError),
    every(PRUNE_WINDOWS_EVERY, () => windows.prune(now(), MAX_WINDOWS), onError),
  ]
  await cleanUp()
  return {
    settings,
    now,
    damage,
    limits,
    hasher,
    verifier,
    keyUsage,
    ring,
    invites,
    accounts,
    passwordLinks: new PasswordLinks(store, passwords, devices, limits, audit, now),
    audit,
    keys,
    sessions: new Sessions(store.sessions, accounts, devices, audit, settings.sessionSeconds * 1000, now),
    tokens: new Tokens(ring, limits, keyUsage, settings, now),
    usages: new Usages(store.usage, leases, keyUsage, settings.quota, now),
    leases,
    overviews: new Overviews(now),
    deletions: new Deletions(store.deletions, audit, now),
    cleanUp,
    verifyRows: () => store.verify(),
    savePublicUrl: (url) => store.publicUrl.write(url),
    ready: () => store.ping(),
    async close() {
      for (const job of jobs) clearInterval(job.timer)
      // An unresponsive database must not keep the process alive. Only the last use of keys is lost then.
      const late = wait(settings.http.shutdownSeconds * 1000, undefined, { ref: false })
      const work = async (): Promise<void> => {
        await Promise.all(jobs.map((job) => job.running))
        await keyUsage.flush()
        await audit.flush()
      }
      try {
        await Promise.race([work(), late])
      } finally {
        await Promise.race([store.close(), late])
      }
    },
  }
}

interface Job {
  readonly timer: NodeJS.Timeout
  /** The last run; resolves when it has ended, whether it succeeded or not. */
  running: Promise<void>
}

function every(milliseconds: number, work: () => Promise<void>, onError: (error: unknown) => void): Job {
  const job: Job = {
    timer: setInterval(() => {
      job.running = work().catch(onError)
    }, milliseconds).unref(),
    running: Promise.resolve(),
  }
  return job
}
