/** The thread of a proxy's port of files: its main thread carries sessions, which must not wait for parts. */
import { isMainThread, parentPort, workerData } from 'node:worker_threads'
import { type ErrorCode, StaticError } from '@static/protocol'
import { type PartServer, type PartServerOptions, startPartServer } from '../files/part-server.ts'
import type { Certificate } from '../ports.ts'
import { type FilesUpstream, Forwarder } from './forwarder.ts'

/** Options of the thread. */
export interface ForwardingOptions extends Omit<PartServerOptions, 'failed' | 'proxyCa' | 'namedCertificate'> {
  readonly upstream: FilesUpstream
}

export type FromForwarding =
  | { readonly type: 'listening'; readonly port: number }
  | { readonly type: 'unable'; readonly code: ErrorCode; readonly message: string }
  | { readonly type: 'failed'; readonly message: string }

export type ToForwarding = { readonly type: 'renew'; readonly certificate: Certificate } | { readonly type: 'close' }

if (!isMainThread && parentPort) {
  const port = parentPort
  const say = (message: FromForwarding): void => port.postMessage(message, [])
  const failed = (error: unknown): void => say({ type: 'failed', message: String(error) })
  const { upstream, ...options } = workerData as ForwardingOptions
  try {
    const forwarder = new Forwarder(upstream, failed, () => performance.now())
    const server: PartServer = await startPartServer(
      { ...options, namedCertificate: options.certificate, failed },
      (...request) => forwarder.handle(...request),
    )
    port.on('message', (message: ToForwarding) => {
      if (message.type === 'renew') server.renew(message.certificate, message.certificate)
      else {
        void server.stop().finally(() => {
          forwarder.close()
          port.close()
        })
      }
    })
    say({ type: 'listening', port: server.port })
  } catch (error) {
    const { code, message } = StaticError.from(error)
    say({ type: 'unable', code, message })
    port.close()
  }
}
