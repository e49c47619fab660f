/**
 * The floor, in a process of its own: the same libraries with nothing around them. Each stream echoes what it gets;
 * on demand the same bytes are written to every stream.
 */
import { createSecureServer, type ServerHttp2Stream } from 'node:http2'
import { createQuicServer, type QuicStream } from '@static/testkit/relay/quic-library'
import { ALPN } from '@static/protocol'
import type { Question, Use } from './messages.ts'

const { cert, key } = JSON.parse(process.argv[2] ?? '') as Record<'cert' | 'key', string>
const quicStreams = new Set<QuicStream>()
const httpStreams = new Set<ServerHttp2Stream>()

const quic = createQuicServer({
  cert,
  key,
  alpn: [ALPN],
  runtimeMode: 'portable',
  disableRetry: false,
  maxIdleTimeoutMs: 60_000,
  maxConnections: 2000,
})
quic.on('error', () => {})
quic.on('session', (session) => {
  session.on('error', () => {})
  session.on('stream', (stream) => {
    quicStreams.add(stream)
    stream.on('error', () => {})
    stream.on('close', () => quicStreams.delete(stream))
    stream.on('data', (chunk: Buffer) => queueMicrotask(() => stream.write(chunk)))
  })
})
const { port: quicPort } = await quic.listen(0, '127.0.0.1')

const http = createSecureServer({ cert, key, minVersion: 'TLSv1.3', settings: { maxConcurrentStreams: 1000 } })
http.on('stream', (stream: ServerHttp2Stream) => {
  httpStreams.add(stream)
  stream.on('error', () => {})
  stream.on('close', () => httpStreams.delete(stream))
  stream.respond({ ':status': 200 })
  stream.on('data', (chunk: Buffer) => stream.write(chunk))
})
await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
const address = http.address()

process.on('message', (question: Question) => {
  if (question.type === 'use') {
    const { user, system } = process.cpuUsage()
    process.send?.({ cpu: user + system, rss: process.memoryUsage.rss() } satisfies Use)
    return
  }
  const bytes = Buffer.alloc(question.bytes, 7)
  const streams = question.transport === 'quic' ? quicStreams : httpStreams
  for (let time = 0; time < question.times; time++) for (const stream of streams) stream.write(bytes)
})
process.on('disconnect', () => process.exit(0))
process.send?.({ ready: { quicPort, httpPort: typeof address === 'object' ? address?.port : 0 }, token: '' })
