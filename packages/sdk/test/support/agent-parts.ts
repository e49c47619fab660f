/** What an agent under test is made of: the real parts, on whatever store and network the test has. */
import { randomBytes } from 'node:crypto'
import type { AgentParts } from '../../src/agent/agent.ts'
import { ed25519, generateSignatureKeyPair, makeEngine } from '../../src/mls/index.ts'
import type { AgentStore, RelaySession } from '../../src/ports/index.ts'
import { openSession, type SessionOptions } from '../../src/session/core-runner.ts'
import { type AgentStoreOptions, openAgentStore } from '../../src/store/sqlcipher.ts'

/** What differs between tests. */
export interface PartsOptions extends Omit<
  SessionOptions,
  'pins' | 'publicKey' | 'sign' | 'listener' | 'tokens' | 'now'
> {
  readonly store: AgentStore
  /** The token for each session; null: a guest. */
  readonly jwt: (() => string) | null
  readonly now?: (() => number) | undefined
  readonly chance?: (() => number) | undefined
  readonly turns?: AgentParts['turns']
  /** Wraps the session. */
  readonly session?: (session: RelaySession) => RelaySession
}

const HOUR_MS = 3_600_000

export function agentParts(options: PartsOptions): AgentParts {
  const { store, jwt, turns, now = Date.now, chance = Math.random, ...rest } = options
  const { session: wrap = (session) => session, ...network } = rest
  return {
    store,
    engine: makeEngine(),
    turns,
    hasTokens: jwt !== null,
    now,
    chance,
    random: someBytes,
    connect: (listener, key, relays) => {
      const { session, ready } = openSession({
        ...network,
        pins: relays,
        publicKey: key.publicKey,
        sign: ed25519.signer(key),
        tokens: jwt === null ? undefined : () => Promise.resolve({ jwt: jwt(), expiresAt: Date.now() + HOUR_MS }),
        listener,
      })
      return { session: wrap(session), ready }
    },
  }
}

export function someBytes(length: number): Uint8Array {
  return new Uint8Array(randomBytes(length))
}

/** A new key pair, as stores keep it. */
export function newIdentity(): { publicKey: Uint8Array; secretKey: Uint8Array } {
  const { publicKey, seed } = generateSignatureKeyPair()
  return { publicKey, secretKey: seed }
}

/** The database of an agent of this name. */
export function openStoreOf(
  name: string,
  directory: string,
  options: Partial<AgentStoreOptions> = {},
): Promise<AgentStore> {
  return openAgentStore({ directory, identity: Buffer.from(name), makeIdentity: newIdentity, ...options })
}
