/** Connections below HTTP: bytes out, bytes in. */
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls, type ConnectionOptions } from 'node:tls'

/** Everything received until the server closed the connection. */
export interface Heard {
  readonly text: string
  /** The status of the first response; undefined without one. */
  readonly status: number | undefined
  /** The body of the first response. */
  readonly body: string
}

/** A connection that collects everything it receives. */
export interface Line extends Disposable {
  send(bytes: string | Uint8Array): void
  /** Resolves when the server closes. */
  readonly closed: Promise<Heard>
  /** Resolves when a complete response has arrived, or the server closes. */
  answer(): Promise<Heard>
}

/** Opens a TLS connection to a server on loopback. Rejects if the handshake fails. */
export async function openTls(url: string, ca: string, options: ConnectionOptions = {}): Promise<Line> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const socket: Socket = connectTls({ port: portOf(url), host: '127.0.0.1', ca, ...options }, () => resolve(socket))
  socket.once('error', reject)
  return listen(await promise)
}

/** Opens a connection without TLS. */
export async function openTcp(url: string): Promise<Line> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const socket: Socket = connectTcp(portOf(url), '127.0.0.1', () => resolve(socket))
  socket.once('error', reject)
  return listen(await promise)
}

/** Sends bytes over TLS and waits for the response. */
export async function exchange(url: string, ca: string, bytes: string | Uint8Array): Promise<Heard> {
  using line = await openTls(url, ca)
  line.send(bytes)
  return await line.answer()
}

function listen(socket: Socket): Line {
  let text = ''
  let check = (): void => {}
  const closed = Promise.withResolvers<Heard>()
  const heard = (): Heard => {
    const end = text.indexOf('\r\n\r\n')
    const status = /^HTTP\/1\.[01] (\d{3}) /.exec(text)?.[1]
    return { text, status: status === undefined ? undefined : Number(status), body: end < 0 ? '' : text.slice(end + 4) }
  }
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk
    check()
  })
  // A reset is one way to refuse; what arrived before it counts.
  socket.on('error', () => {})
  socket.once('close', () => closed.resolve(heard()))
  return {
    send: (bytes) => void (socket.writable && socket.write(bytes)),
    closed: closed.promise,
    answer() {
      const complete = new Promise<Heard>((resolve) => {
        check = () => {
          const { body } = heard()
          const length = /\r\ncontent-length: (\d+)/i.exec(text)?.[1]
          if (length !== undefined && body.length >= Number(length)) resolve(heard())
        }
        check()
      })
      return Promise.race([complete, closed.promise])
    },
    [Symbol.dispose]: () => socket.destroy(),
  }
}

function portOf(url: string): number {
  return Number(new URL(url).port)
}
