/** Helpers shared by the tests of this package. */
import { mkdtemp, rm } from 'node:fs/promises'
import { connect as connectTcp, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { connect, createServer } from 'node:tls'
import { StaticError } from '@static/protocol'

/** A new directory path, removed after the test; the directory itself does not exist yet. */
export async function temporaryDirectory(t: TestContext): Promise<string> {
  const parent = await mkdtemp(join(tmpdir(), 'static-cli-'))
  t.after(() => rm(parent, { recursive: true, force: true }))
  return join(parent, 'server')
}

/** For assert.rejects: a StaticError with this code and a matching message. */
export function staticError(code: string, message: RegExp): (error: unknown) => boolean {
  return (error) => {
    if (!(error instanceof StaticError)) throw error
    if (error.code !== code || !message.test(error.message)) throw error
    return true
  }
}

/** A real TLS 1.3 handshake with a server that presents the certificate; rejects as the client's `error` event. */
export async function handshake(
  server: { readonly cert: string; readonly key: string },
  ca: string,
  host: string,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const listener = createServer({ cert: server.cert, key: server.key, minVersion: 'TLSv1.3' }, (socket) => {
    socket.on('error', () => {})
    socket.resume()
  })
  listener.on('tlsClientError', () => {})
  await new Promise<void>((done) => listener.listen(0, '127.0.0.1', done))
  // A separate TCP connection allows host names and addresses that this machine does not have.
  const tcp = connectTcp((listener.address() as AddressInfo).port, '127.0.0.1')
  const client = connect({ socket: tcp, host, ca, minVersion: 'TLSv1.3' }, resolve)
  client.on('error', reject)
  try {
    await promise
  } finally {
    client.destroy()
    tcp.destroy()
    listener.close()
  }
}
