/** Settings for tests that are not about the cost of Argon2 or the rate limits. */

const PLENTY = { limit: 1_000_000_000, seconds: 3600 }

/** Rate limits too high to be reached. */
export const HIGH_RATES: Record<string, typeof PLENTY> = {
  account: PLENTY,
  tokens: PLENTY,
  keyCreations: PLENTY,
  signups: PLENTY,
  failures: PLENTY,
  passwordsPerAddress: PLENTY,
  passwords: PLENTY,
}

/** The cheapest Argon2id parameters, no rate limits, and time for a busy machine to connect to its database. */
export const QUICK: Record<string, unknown> = {
  argon2: { memoryKib: 64, passes: 1, queue: 100_000 },
  rates: HIGH_RATES,
  keysPerAccount: 1_000_000,
  databaseWaitSeconds: 60,
}
