/** A relay in a thread of its own that sends cells by gRPC as fast as it can, whatever it is told. */
import { createSecureServer, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'
import { CELL_BYTES, frameCells } from '@static/protocol'

/** The relay's certificate, and how many frames it has sent. */
export interface FloodingRelay {
  readonly cert: string
  readonly key: string
  readonly sent: Int32Array
}

const frames = frameCells(new Uint8Array(64 * CELL_BYTES))
const { sent, ...certificate } = workerData as FloodingRelay
const server = createSecureServer(certificate)
server.on('session', (session) => session.on('error', () => {}))
server.on('stream', (stream: ServerHttp2Stream) => {
  stream.on('error', () => {})
  stream.resume()
  stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' })
  const flood = (): void => {
    for (let more = true; more && !stream.destroyed; count()) more = stream.write(frames)
  }
  stream.on('drain', flood)
  flood()
})

function count(): void {
  Atomics.add(sent, 0, 1)
  Atomics.notify(sent, 0)
}

server.listen(0, '127.0.0.1', () => parentPort?.postMessage((server.address() as AddressInfo).port, []))
