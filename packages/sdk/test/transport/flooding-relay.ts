/** A relay in a thread of its own that sends cells by gRPC as fast as it can, whatever it is told. */
import { createSecureServer, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'
import { CELL_BYTES, frameCells } from '@static/protocol'

const frames = frameCells(new Uint8Array(64 * CELL_BYTES))
const server = createSecureServer(workerData as { cert: string; key: string })
server.on('session', (session) => session.on('error', () => {}))
server.on('stream', (stream: ServerHttp2Stream) => {
  stream.on('error', () => {})
  stream.resume()
  stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' })
  const flood = (): void => {
    while (!stream.destroyed && stream.write(frames));
  }
  stream.on('drain', flood)
  flood()
})
server.listen(0, '127.0.0.1', () => parentPort?.postMessage((server.address() as AddressInfo).port, []))
