/** All tunable settings of a relay with their defaults (SPEC.md lists the same numbers). */
import { MAX_FILE_BYTES, overlaySettings, StaticError } from '@static/protocol'
import type { Retention } from './ports.ts'

/** The tunable numbers. Times are in milliseconds. */
export interface Settings {
  readonly retention: Retention
  readonly session: {
    readonly pingMs: number
    readonly pongMs: number
    readonly openMs: number
    readonly challengeMs: number
    readonly graceMs: number
    readonly tokenMs: number
    readonly tokenTotalMs: number
    readonly stallMs: number
    readonly drainMs: number
  }
  readonly streams: {
    readonly total: number
    readonly perAddress: number
    readonly unauthenticatedPerAddress: number
    readonly openingsPerSecond: number
    readonly openingsBurst: number
    readonly callsPerSecond: number
    readonly callsBurst: number
    readonly quicPerEndpoint: number
    /** Connections to the TCP port, in total and from one address. */
    readonly connections: number
    readonly connectionsPerAddress: number
    /** Pending requests of one stream, their bytes, and the bytes of all streams together. */
    readonly requests: number
    readonly requestBytes: number
    readonly totalRequestBytes: number
    /** Bytes of incomplete envelopes, of all streams together. */
    readonly joiningBytes: number
    /** Cells per second of all clocked sessions together. Guests get a quarter of them. */
    readonly clockedCells: number
  }
  readonly rates: {
    /** Commits of an account, of a guest, and in a channel. */
    readonly commitsPerSecond: number
    readonly commitsBurst: number
    readonly guestCommitsPerSecond: number
    readonly guestCommitsBurst: number
    readonly channelCommitsPerSecond: number
    readonly channelCommitsBurst: number
    /** An additional share for each agent in each of its channels. */
    readonly ownCommitsPerSecond: number
    readonly ownCommitsBurst: number
    /** KeyPackages claimed by an agent, and by an account from one agent. */
    readonly claimsPerMinute: number
    readonly claimsPerTargetPerMinute: number
    readonly joinsPerMinute: number
    /** Polls for join requests. */
    readonly pollsPerMinute: number
    /** Registrations and revocations of invites. Answers to joiners have the same limit, counted apart. */
    readonly invitesPerMinute: number
    readonly uploadsPerMinute: number
    /** Channels that an agent may resume. */
    readonly resumedPerMinute: number
  }
  readonly counts: {
    readonly channelsPerAccount: number
    readonly invitesPerChannel: number
    readonly joinsPerInvite: number
    readonly keyPackageAgents: number
    readonly resumedChannels: number
  }
  readonly files: {
    /** Bytes of all files of an account, whatever its plan says. */
    readonly accountBytes: number
    /** Of one file. */
    readonly bytes: number
    readonly perChannel: number
    /** From the message on, and until then. */
    readonly keptMs: number
    readonly unsentMs: number
    /** Bytes of parts of one node. */
    readonly bytesPerSecond: number
  }
  readonly guestLimit: number
  readonly leaseUnits: number
}

const DAY = 86_400_000
const MIB = 1024 * 1024

export const DEFAULT_SETTINGS: Settings = {
  retention: {
    entryMs: 7 * DAY,
    messageIdMs: 7 * DAY,
    channelBytes: 1024 * MIB,
    channelEntries: 500_000,
    accountBytes: 16 * 1024 * MIB,
    freeControl: 120,
    freeCommitBytes: 512 * 1024,
    freeChannelCommitBytes: 8 * MIB,
    memberAddsPerHour: 60,
  },
  session: {
    pingMs: 5000,
    pongMs: 5000,
    openMs: 5000,
    challengeMs: 30_000,
    graceMs: 30_000,
    tokenMs: 600_000,
    tokenTotalMs: 3_600_000,
    stallMs: 30_000,
    drainMs: 5000,
  },
  streams: {
    total: 20_000,
    perAddress: 4096,
    unauthenticatedPerAddress: 256,
    openingsPerSecond: 200,
    openingsBurst: 2000,
    callsPerSecond: 1000,
    callsBurst: 10_000,
    quicPerEndpoint: 1000,
    connections: 20_000,
    connectionsPerAddress: 1000,
    requests: 1024,
    requestBytes: 8 * MIB,
    totalRequestBytes: 256 * MIB,
    joiningBytes: 256 * MIB,
    clockedCells: 16_000,
  },
  rates: {
    commitsPerSecond: 50,
    commitsBurst: 2000,
    guestCommitsPerSecond: 2,
    guestCommitsBurst: 60,
    channelCommitsPerSecond: 10,
    channelCommitsBurst: 300,
    ownCommitsPerSecond: 1,
    ownCommitsBurst: 10,
    claimsPerMinute: 600,
    claimsPerTargetPerMinute: 60,
    joinsPerMinute: 60,
    pollsPerMinute: 600,
    invitesPerMinute: 1000,
    uploadsPerMinute: 60,
    resumedPerMinute: 20_000,
  },
  counts: {
    channelsPerAccount: 1000,
    invitesPerChannel: 1000,
    joinsPerInvite: 256,
    keyPackageAgents: 100_000,
    resumedChannels: 2000,
  },
  files: {
    accountBytes: 256 * 1024 * MIB,
    bytes: 1024 * MIB,
    perChannel: 1000,
    keptMs: 7 * DAY,
    unsentMs: DAY,
    bytesPerSecond: 64 * MIB,
  },
  guestLimit: 1000,
  leaseUnits: 1000,
}

/** Applies an operator's values to the defaults. Throws `invalid_request` naming the first invalid one. */
export function settingsFrom(overrides: unknown): Settings {
  const settings = overlaySettings(DEFAULT_SETTINGS, overrides)
  const { bytes } = settings.files
  if (bytes > MAX_FILE_BYTES) {
    throw StaticError.of('invalid_request', `The setting files.bytes must be at most ${MAX_FILE_BYTES}, not ${bytes}.`)
  }
  return settings
}
