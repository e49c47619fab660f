/** The library's settings. Several of its defaults are unsafe for us; each line here is on purpose. */
import type { Capabilities, ClientConfig, Lifetime } from 'ts-mls'
import { defaultKeyPackageEqualityConfig } from 'ts-mls/keyPackageEqualityConfig.js'
import { CONTEXT_TYPE } from '../context.ts'
import type { Suite } from '../provider.ts'

const DAY_SECONDS = 86_400n
/** How long a KeyPackage may be used. */
export const LIFETIME_SECONDS: bigint = 84n * DAY_SECONDS
/** How far the clocks of two agents may be apart. */
export const CLOCK_SKEW_SECONDS = 3600n
/** Hides, among other things, whether a commit carries a PreSharedKey. */
const HANDSHAKE_BYTES = 1280

/** Commits of one leaf in one epoch that lost their slot: more than anybody makes, few enough to hash. */
const MAX_HANDSHAKE_STEPS = 256

export const CONFIG: ClientConfig = {
  keyRetentionConfig: {
    // A kept generation is a ratchet secret from which all later ones follow.
    retainKeysForGenerations: 0,
    // 0 would keep all of them. The one that is kept is dropped in `adopt`.
    retainKeysForEpochs: 1,
    maximumForwardRatchetSteps: MAX_HANDSHAKE_STEPS,
  },
  lifetimeConfig: {
    maximumTotalLifetime: LIFETIME_SECONDS + 2n * CLOCK_SKEW_SECONDS,
    // Members whose clocks differ would disagree about a commit. The adder checks.
    validateLifetimeOnReceive: false,
  },
  keyPackageEqualityConfig: defaultKeyPackageEqualityConfig,
  paddingConfig: { kind: 'padUntilLength', padUntilLength: HANDSHAKE_BYTES },
  // No pins: they differ between members as clocks do. Who is who is for commit-rules.ts and the application.
  authService: { validateCredential: async ({ credentialType }) => credentialType === 'basic' },
}

/** What a leaf of ours can do. */
export function capabilitiesOf(suite: Suite): Capabilities {
  return {
    versions: ['mls10'],
    ciphersuites: [suite.name],
    extensions: [CONTEXT_TYPE],
    proposals: [],
    credentials: ['basic'],
  }
}

/** From a little before now, for clocks that are behind. */
export function lifetimeFrom(now: number): Lifetime {
  const seconds = BigInt(Math.floor(now / 1000))
  return { notBefore: seconds - CLOCK_SKEW_SECONDS, notAfter: seconds + LIFETIME_SECONDS }
}
