/** Starts an agent on a directory, against any relay, with its ports as they are or wrapped. */
import { randomBytes } from 'node:crypto'
import { StaticClient } from '../../src/client.ts'
import { parseEndpoint } from '../../src/endpoint.ts'
import { ed25519, generateSignatureKeyPair, makeEngine } from '../../src/mls/index.ts'
import type { AgentStore, RelaySession, Transport } from '../../src/ports.ts'
import { openSession } from '../../src/session/session.ts'
import { openAgentStore } from '../../src/store/sqlcipher.ts'
import { makeGrpcTransport } from '../../src/transport/grpc.ts'
import { makeQuicTransport } from '../../src/transport/quic.ts'

/** Who it is and where its relay is. */
export interface StartOptions {
  readonly directory: string
  readonly identity: string
  /** `https://localhost:…` or `quic://localhost:…`. */
  readonly endpoint: string
  readonly ca: string
  /** Null: a guest. */
  readonly jwt: string | null
  /** Dials again without waiting long. */
  readonly impatient?: boolean
}

/** Wraps the ports. */
export interface Wrapping {
  store(store: AgentStore): AgentStore
  transport(transport: Transport): Transport
  session(session: RelaySession): RelaySession
}

const PLAIN: Wrapping = { store: (store) => store, transport: (transport) => transport, session: (session) => session }

/** Numbers for waits are made of four bytes: a fiftieth of the longest. */
const SHORT = new Uint8Array([5, 0, 0, 0])

function random(bytes: number): Uint8Array {
  return new Uint8Array(randomBytes(bytes))
}

/** Starts it, or starts it again. */
export async function startAgent(options: StartOptions, wrapping: Wrapping = PLAIN): Promise<StaticClient> {
  const { directory, identity, endpoint, ca, jwt, impatient = false } = options
  const makeIdentity = (): { publicKey: Uint8Array; secretKey: Uint8Array } => {
    const { publicKey, seed } = generateSignatureKeyPair()
    return { publicKey, secretKey: seed }
  }
  const store = await openAgentStore({ directory, identity: Buffer.from(identity), makeIdentity })
  return await StaticClient.start({
    store: wrapping.store(store),
    engine: makeEngine(),
    now: Date.now,
    chance: Math.random,
    random,
    connect: (listener, key) => {
      const { session, ready } = openSession({
        endpoint: parseEndpoint(endpoint),
        ca,
        transports: { quic: wrapping.transport(makeQuicTransport()), grpc: wrapping.transport(makeGrpcTransport()) },
        pins: store.load().relays,
        publicKey: key.publicKey,
        sign: ed25519.signer(key),
        tokens: jwt === null ? undefined : () => Promise.resolve({ jwt, expiresAt: Date.now() + 3_600_000 }),
        // Cover at random moments would move the numbers of the calls.
        traffic: 'off',
        listener,
        random: (bytes) => (impatient && bytes === SHORT.length ? SHORT : random(bytes)),
      })
      return { session: wrapping.session(session), ready }
    },
  })
}
