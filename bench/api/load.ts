/**
 * The load generator, a process of its own: raw TLS sockets that are kept, one request under way on each
 * (closed loop), so that it costs little and both servers see the same pattern.
 */
import { connect, type TLSSocket } from 'node:tls'

/** The request to send, and how often. */
export interface Job {
  readonly port: number
  readonly ca: string
  /** The request, byte for byte. */
  readonly request: string
  readonly connections: number
  readonly count: number
}

/** The result. */
export interface Done {
  readonly answers: number
  readonly seconds: number
}

process.on('message', (job: Job) => {
  run(job).then(
    (done) => process.send?.(done),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    },
  )
})

async function run(job: Job): Promise<Done> {
  const sockets = await Promise.all(Array.from({ length: job.connections }, () => open(job)))
  const started = performance.now()
  let left = job.count
  let answers = 0
  const take = (): boolean => left-- > 0
  // Never asleep: waking a process is work for the one that wakes it, which a slower server would pay more often.
  let awake = setImmediate(function again() {
    awake = setImmediate(again)
  })
  await Promise.all(
    sockets.map((socket) =>
      ask(socket, Buffer.from(job.request), take, () => {
        answers++
      }),
    ),
  )
  clearImmediate(awake)
  const seconds = (performance.now() - started) / 1000
  for (const socket of sockets) socket.destroy()
  return { answers, seconds }
}

function open({ port, ca }: Job): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', ca, minVersion: 'TLSv1.3' }, () => resolve(socket))
    socket.setNoDelay(true).on('error', reject)
  })
}

/** Asks again and again on one socket until `take` says that it is enough. */
function ask(socket: TLSSocket, request: Buffer, take: () => boolean, answered: () => void): Promise<void> {
  return new Promise((resolve, reject) => {
    let buffer = ''
    const next = (): void => {
      if (take()) socket.write(request)
      else resolve()
    }
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      buffer += chunk
      const end = buffer.indexOf('\r\n\r\n')
      if (end < 0) return
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(buffer)?.[1])
      if (!buffer.startsWith('HTTP/1.1 200 ') || Number.isNaN(length)) {
        reject(new Error(`Unexpected answer: ${buffer}`))
        return
      }
      if (buffer.length < end + 4 + length) return
      buffer = ''
      answered()
      next()
    })
    socket.on('close', () => reject(new Error('The server closed the connection.')))
    next()
  })
}
