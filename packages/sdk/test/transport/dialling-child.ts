/** Dials without an authority of its own, ends the line, and does nothing more: the process must end by itself. */
import { CELL_BYTES } from '@static/protocol'
import { makeGrpcTransport } from '../../src/transport/grpc.ts'
import { makeQuicTransport } from '../../src/transport/quic.ts'

const [way, port] = process.argv.slice(2)
const transport = way === 'quic' ? makeQuicTransport() : makeGrpcTransport()
const target = { host: '127.0.0.1', port: Number(port), serverName: 'localhost', ca: undefined }
const stream = await transport.dial(target, {
  data: () => {},
  closed: (reason) => console.log(reason === undefined ? 'closed in order' : reason.message),
})
stream.write(new Uint8Array(CELL_BYTES))
stream.end()
