/** The library's settings. Several of its defaults are unsafe here; every line is deliberate. */
import type { Capabilities, ClientConfig, Lifetime } from 'ts-mls'
import { defaultKeyPackageEqualityConfig } from 'ts-mls/keyPackageEqualityConfig.js'
import type { Suite } from '../aead.ts'
import { CONTEXT_TYPE } from '../channel-context.ts'
import { SEAL_KEY_TYPE } from '../seal-key.ts'

const DAY_SECONDS = 86_400n
/** How long a KeyPackage is valid. */
export const LIFETIME_SECONDS: bigint = 84n * DAY_SECONDS
/** How far the clocks of two agents may differ. */
export const CLOCK_SKEW_SECONDS = 3600n
/** Commits are padded to this size; it hides, among other things, whether one carries a PreSharedKey. */
const HANDSHAKE_BYTES = 1280

export const CONFIG: ClientConfig = {
  keyRetentionConfig: {
    // A retained generation is a ratchet secret from which all later ones can be derived.
    retainKeysForGenerations: 0,
    // 0 would keep all epochs. `adopt` drops the one epoch that is kept.
    retainKeysForEpochs: 1,
    // handshake.ts moves the ratchets forward, within its own bound.
    maximumForwardRatchetSteps: 0,
  },
  lifetimeConfig: {
    maximumTotalLifetime: LIFETIME_SECONDS + 2n * CLOCK_SKEW_SECONDS,
    // Members whose clocks differ would disagree about a commit. The member that adds checks the lifetime.
    validateLifetimeOnReceive: false,
  },
  keyPackageEqualityConfig: defaultKeyPackageEqualityConfig,
  paddingConfig: { kind: 'padUntilLength', padUntilLength: HANDSHAKE_BYTES },
  // No pins: like clocks, they differ between members. commit-rules.ts and the application check identities.
  authService: { validateCredential: async ({ credentialType }) => credentialType === 'basic' },
}

/** The extensions of private types that every leaf of a channel must support. */
export const CHANNEL_EXTENSIONS: readonly number[] = [CONTEXT_TYPE, SEAL_KEY_TYPE]

/** The capabilities of this SDK's leaves. */
export function capabilitiesOf(suite: Suite): Capabilities {
  return {
    versions: ['mls10'],
    ciphersuites: [suite.name],
    extensions: [...CHANNEL_EXTENSIONS],
    proposals: [],
    credentials: ['basic'],
  }
}

/** A lifetime that starts a little before now, to allow for clocks that are behind. */
export function lifetimeFrom(now: number): Lifetime {
  const seconds = BigInt(Math.floor(now / 1000))
  return { notBefore: seconds - CLOCK_SKEW_SECONDS, notAfter: seconds + LIFETIME_SECONDS }
}
