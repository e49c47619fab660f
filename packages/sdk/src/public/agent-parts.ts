/**
 * The production parts of an agent: its database on disk, a session to a real relay, the system clock and randomness.
 */
import { paceOf, StaticError, toHex, type TrafficProfileName } from '@static/protocol'
import type { AgentParts } from '../agent/agent.ts'
import { FollowTurns } from '../channel/log/follow-turns.ts'
import { agentIdOf, ed25519, generateSignatureKeyPair, makeEngine } from '../mls/index.ts'
import { otherRelay } from '../admitting/link.ts'
import type { AgentLog } from '../agent/log/handler-log.ts'
import type { AgentStore, KnownRelay, Logger, SessionListener } from '../ports/index.ts'
import { openSession, type SessionOptions } from '../session/core-runner.ts'
import type { Settings } from './settings.ts'
import { makeRandom } from '../platform/random-stock.ts'
import { writeRelayFile } from '../store/relay-file.ts'
import { makeFileDisk } from '../store/file-disk.ts'
import { openAgentStore } from '../store/sqlcipher.ts'
import { openProofDesk } from '../account/trust/desk.ts'
import { makeTokenSource } from '../account/token-source.ts'
import { makeClockedTransport } from '../transport/clock.ts'
import { makeGrpcTransport } from '../transport/grpc.ts'
import { makePartLine } from '../transport/part-line.ts'
import { makeQuicTransport } from '../transport/quic.ts'

/** The parts of an agent, and the settings they were made from. */
export interface OpenedAgentParts {
  readonly parts: AgentParts
  readonly settings: Settings
}

/**
 * Creates the parts of an agent from its settings.
 *
 * @throws {StaticError} `store_*`, `invalid_request` if the directory belongs to another identity, `invite_expired` or
 *   `invite_invalid` for a link that has expired or is for a different relay
 */
export async function openAgentParts(wanted: Settings): Promise<OpenedAgentParts> {
  const store = await openAgentStore({
    directory: wanted.dataDir,
    identity: wanted.identity,
    makeIdentity: () => {
      const { publicKey, seed } = generateSignatureKeyPair()
      return { publicKey, secretKey: seed }
    },
    key: wanted.key,
    acceptRolledBack: wanted.acceptRolledBack,
  })
  try {
    const settings = usedSettings(wanted, store)
    return { parts: partsOf(settings, store), settings }
  } catch (error) {
    store.close()
    throw error
  }
}

/**
 * A link never replaces the relay of an agent. An agent that knows only the link's relay crashed before it could store
 * the link.
 */
function usedSettings(wanted: Settings, store: AgentStore): Settings {
  const { adopt, endpoint } = wanted
  if (adopt === undefined) return wanted
  const { link, otherwise } = adopt
  const known = [...store.load().relays]
  // This agent has met the configured relay, so a link to another address of the same relay changes nothing.
  if (otherwise !== undefined && known.some(([name]) => name === otherwise.endpoint.serverName)) return otherwise
  const isNew = known.every(([name, { relayId }]) => name === endpoint.serverName && toHex(relayId) === link.relayId)
  if (isNew) {
    if (link.expiresAt.getTime() > Date.now()) return wanted
    throw StaticError.of('invite_expired', `The invite link expired on ${link.expiresAt.toISOString()}. ${NEW_LINK}`)
  }
  if (otherwise !== undefined) return otherwise
  throw otherRelay(link, known.map(([name]) => name).join(', '))
}

const NEW_LINK = 'Ask the owner of the channel for a new one.'

/** Used if the application names no logger: a handler must not fail unnoticed. */
const STDERR: Logger = { warn: (text) => void process.stderr.write(`${text}\n`) }

function logOf(logger: Settings['logger']): AgentLog | undefined {
  if (logger === false) return undefined
  return logger === undefined ? { logger: STDERR, unlessRead: true } : { logger, unlessRead: false }
}

/** Shared by all agents of the process, since they share its thread. */
const turns = new FollowTurns(setImmediate)

function partsOf(settings: Settings, store: AgentStore): AgentParts {
  const { endpoint, fallback, grpcPort, firstGrpcPort, ca, traffic, cellsPerSecond, apiKey, apiUrl, connectTimeoutMs } =
    settings
  const account = apiKey === undefined || apiUrl === undefined ? undefined : { apiKey, apiUrl }
  return {
    store,
    engine: makeEngine(),
    turns,
    hasTokens: account !== undefined,
    connect: (listener, key, relays) => {
      const { publicKey } = key
      const agentId = toHex(agentIdOf(publicKey))
      // A relay that moves its gRPC port tells the agent.
      const hasTold = Boolean(relays.get(endpoint.serverName)?.grpcPort)
      return openSession({
        endpoint,
        fallback,
        grpcPort: grpcPort ?? (hasTold ? undefined : firstGrpcPort),
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
        listener: settings.wait && settings.adopt ? remembering(settings, listener) : listener,
      })
    },
    apiUrl,
    offers: settings.offers,
    receipts: settings.receipts,
    history: settings.history,
    proofs: (sign, listener) => openProofDesk(settings.proofs, sign, listener),
    files: {
      line: makePartLine({ ca, connectTimeoutMs }),
      disk: makeFileDisk(settings.dataDir),
      isShaped: paceOf(traffic, cellsPerSecond) !== undefined,
      visible: settings.visibleFiles,
    },
    log: logOf(settings.logger),
    now: Date.now,
    random: makeRandom(),
    chance: Math.random,
  }
}

/**
 * Stores the relay of a link once it has led to a session. If that fails, closes the agent: the relay would be lost at
 * the next start.
 */
export async function rememberLink(
  { adopt, dataDir }: Settings,
  client: { readonly relay: KnownRelay | undefined; close(): Promise<void> },
): Promise<void> {
  if (adopt === undefined || !client.relay) return
  try {
    writeRelayFile(dataDir, adopt.link)
  } catch (error) {
    await client.close()
    throw error
  }
}

/** Like `rememberLink`, for an application that does not wait for the first session. */
function remembering(settings: Settings, listener: SessionListener): SessionListener {
  let isKept = false
  return {
    push: (body) => listener.push(body),
    lost: (reason) => listener.lost(reason),
    pin: (name, relay) => listener.pin(name, relay),
    opened: (info) => {
      listener.opened(info)
      if (isKept || !settings.adopt) return
      try {
        writeRelayFile(settings.dataDir, settings.adopt.link)
        isKept = true
      } catch {
        // No caller waits for this session. The next session tries again.
      }
    },
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
