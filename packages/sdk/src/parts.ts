/**
 * The production parts of an agent: its database on disk, a session to a real relay, the system clock and randomness.
 */
import { randomBytes } from 'node:crypto'
import { paceOf, toHex, type TrafficProfileName } from '@static/protocol'
import type { AgentParts } from './core/agent/agent.ts'
import { agentIdOf, ed25519, generateSignatureKeyPair, makeEngine } from './mls/index.ts'
import { openSession, type SessionOptions } from './session/session.ts'
import type { Settings } from './settings.ts'
import { openAgentStore } from './store/sqlcipher.ts'
import { makeTokenSource } from './tokens.ts'
import { makeClockedTransport } from './transport/clock.ts'
import { makeGrpcTransport } from './transport/grpc.ts'
import { makeQuicTransport } from './transport/quic.ts'

/**
 * Creates the parts of an agent from its settings.
 *
 * @throws {StaticError} `store_*`, or `invalid_request` if the directory belongs to another identity
 */
export async function openParts(settings: Settings): Promise<AgentParts> {
  const { endpoint, fallback, grpcPort, ca, traffic, cellsPerSecond, apiKey, apiUrl, connectTimeoutMs } = settings
  const store = await openAgentStore({
    directory: settings.dataDir,
    identity: settings.identity,
    makeIdentity: () => {
      const { publicKey, seed } = generateSignatureKeyPair()
      return { publicKey, secretKey: seed }
    },
    key: settings.key,
    acceptRolledBack: settings.acceptRolledBack,
  })
  const account = apiKey === undefined || apiUrl === undefined ? undefined : { apiKey, apiUrl }
  return {
    store,
    engine: makeEngine(),
    hasTokens: account !== undefined,
    connect: (listener, key, relays) => {
      const { publicKey } = key
      const agentId = toHex(agentIdOf(publicKey))
      return openSession({
        endpoint,
        fallback,
        grpcPort,
        ca,
        transports: transportsFor(traffic, connectTimeoutMs),
        pins: relays,
        acceptRelay: settings.acceptRelay,
        publicKey,
        sign: ed25519.signer(key),
        tokens: account && makeTokenSource({ ...account, ca, agentId }),
        traffic,
        cellsPerSecond,
        wait: settings.wait,
        listener,
      })
    },
    apiUrl,
    offers: settings.offers,
    now: Date.now,
    random: (bytes) => new Uint8Array(randomBytes(bytes)),
    chance: Math.random,
  }
}

/** The transports for a traffic profile. */
export function transportsFor(traffic: TrafficProfileName, connectTimeoutMs?: number): SessionOptions['transports'] {
  const options = connectTimeoutMs === undefined ? {} : { connectTimeoutMs }
  if (!paceOf(traffic, 0)) return { quic: makeQuicTransport(options), grpc: makeGrpcTransport(options) }
  return {
    quic: makeClockedTransport({ way: 'quic', ...options }),
    grpc: makeClockedTransport({ way: 'grpc', ...options }),
  }
}
