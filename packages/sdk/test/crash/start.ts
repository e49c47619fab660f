/** Starts an agent on a directory, against any relay, with its ports as they are or wrapped. */
import { StaticClient } from '../../src/public/client.ts'
import { parseEndpoint } from '../../src/account/endpoint.ts'
import type { AgentStore, RelaySession, Transport } from '../../src/ports/index.ts'
import { makeGrpcTransport } from '../../src/transport/grpc.ts'
import { makeQuicTransport } from '../../src/transport/quic.ts'
import { agentParts, openStoreOf, someBytes } from '../support/agent-parts.ts'

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

/** Starts it, or starts it again. */
export async function startAgent(options: StartOptions, wrapping: Wrapping = PLAIN): Promise<StaticClient> {
  const { directory, identity, endpoint, ca, jwt, impatient = false } = options
  const store = await openStoreOf(identity, directory)
  return await StaticClient.start(
    agentParts({
      store: wrapping.store(store),
      endpoint: parseEndpoint(endpoint),
      ca,
      transports: { quic: wrapping.transport(makeQuicTransport()), grpc: wrapping.transport(makeGrpcTransport()) },
      // Cover at random moments would move the numbers of the calls.
      traffic: 'off',
      jwt: jwt === null ? null : () => jwt,
      random: (bytes) => (impatient && bytes === SHORT.length ? SHORT : someBytes(bytes)),
      session: (session) => wrapping.session(session),
    }),
    'localhost',
  )
}
