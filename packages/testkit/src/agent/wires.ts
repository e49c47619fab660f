/** Streams of cells over real transports. */
import { connectQuic } from '@static/quic'
import type { Wire } from './agent.ts'
import { connectGrpc } from './grpc-client.ts'

/** How long a handshake may take: on a busy machine longer than agents wait by default. */
const PATIENCE_MS = 60_000

/** The local addresses of a relay or proxy. */
interface Target {
  readonly port: number
  readonly ca: string
  /** The local address to connect from; gRPC only. */
  readonly localAddress?: string | undefined
}

/** A connection and a stream for each session. */
export function quicWire({ port, ca }: Target): Wire {
  return {
    form: 'cbor',
    serverName: 'localhost',
    open: async (handlers) => {
      const target = { host: '127.0.0.1', port, serverName: 'localhost', ca }
      const connection = await connectQuic({ ...target, connectTimeoutMs: PATIENCE_MS })
      return connection.openStream({
        data: (bytes) => handlers.data(bytes),
        closed: () => {
          void connection.close()
          handlers.closed()
        },
      })
    },
  }
}

/** The same over gRPC. */
export function grpcWire({ port, ca, localAddress }: Target): Wire {
  return {
    form: 'protobuf',
    serverName: 'localhost',
    open: async (handlers) => {
      const client = await connectGrpc({ host: '127.0.0.1', port, ca, localAddress })
      const stream = client.openSession({
        data: (bytes) => handlers.data(bytes),
        closed: () => {
          void client.close()
          handlers.closed()
        },
      })
      return { write: (bytes) => stream.write(bytes), end: () => stream.end() }
    },
  }
}
