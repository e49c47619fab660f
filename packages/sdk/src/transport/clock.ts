/**
 * A transport whose streams can send on a clock (SPEC.md, "Traffic"). Each stream and its sockets have their own
 * thread: encryption, the database and the application share the agent's thread and would delay the ticks, and an
 * observer who sees the ticks shift can tell when the agent is working.
 */
import { isMainThread, Worker } from 'node:worker_threads'
import { ConnectionError } from '@static/node/connection-error'
import type { Shield } from '@static/quic'
import { StaticError } from '@static/protocol'
import type { CellStream, StreamHandlers, Transport } from '../ports/index.ts'
import type { ClockSettings, FromClock, SentError, ToClock } from './clock-message.ts'
import { StreamEvents } from './stream-events.ts'
import type { DialOptions } from './dial-options.ts'
import { loadQuic } from './quic-package.ts'

export interface ClockOptions extends Pick<DialOptions, 'connectTimeoutMs'> {
  readonly way: 'quic' | 'grpc'
}

export function makeClockedTransport({ way, connectTimeoutMs }: ClockOptions): Transport {
  return {
    form: way === 'quic' ? 'cbor' : 'protobuf',
    dial: async (target, handlers) => {
      const shield = way === 'quic' ? await loadShield() : undefined
      const consumed = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)
      return await dial({ way, target, connectTimeoutMs, consumed }, handlers, shield)
    },
  }
}

/** In a worker thread, it would change a copy of the environment. */
async function loadShield(): Promise<Shield> {
  const { withPrivateTemp, wrongThread } = await loadQuic()
  if (!isMainThread) throw wrongThread()
  return withPrivateTemp
}

function dial(workerData: ClockSettings, handlers: StreamHandlers, shield: Shield | undefined): Promise<CellStream> {
  const worker = new Worker(new URL('./clock-worker.ts', import.meta.url), { workerData })
  const post = (message: ToClock): void => worker.postMessage(message, [])
  const write = (part: Uint8Array, urgent: boolean): void => {
    // Copied before the transfer, because transferring a view would transfer the whole underlying buffer.
    const cells = new Uint8Array(part)
    worker.postMessage({ type: 'write', cells, urgent } satisfies ToClock, [cells.buffer])
  }
  const events = new StreamEvents(handlers)
  const consumed = new Int32Array(workerData.consumed)
  const { promise, resolve, reject } = Promise.withResolvers<CellStream>()
  let unshield: (() => void) | undefined
  const over = (error: StaticError | undefined): void => {
    unshield?.()
    reject(error ?? gone())
    events.closed(error)
    // It may still be closing its connection; the process does not wait for that.
    worker.unref()
    setTimeout(() => void worker.terminate(), GOODBYE_MS).unref()
  }
  worker.on('message', (message: FromClock) => {
    switch (message.type) {
      case 'data':
        Atomics.add(consumed, 0, message.chunk.length)
        return events.data(message.chunk)
      case 'dialled':
        events.begin()
        return resolve({
          address: message.address,
          write: (cells, urgent = false) => write(cells, urgent),
          pace: (pace) => post({ type: 'pace', pace }),
          end: () => post({ type: 'end' }),
        })
      case 'shield': {
        const { promise: done, resolve: finish } = Promise.withResolvers<void>()
        unshield = finish
        void shield?.(() => {
          post({ type: 'shielded' })
          return done
        })
        return
      }
      case 'unshield':
        return unshield?.()
      case 'failed':
        return over(received(message.error))
      case 'closed':
        return over(message.error && received(message.error))
    }
  })
  worker.once('error', (cause) => over(new ConnectionError('closed', DIED, cause)))
  worker.once('exit', () => over(gone()))
  return promise
}

const GOODBYE_MS = 500
const DIED = 'The thread that runs the connection to the relay has stopped.'

function gone(): ConnectionError {
  return new ConnectionError('closed', DIED)
}

function received({ code, reason, message }: SentError): StaticError {
  return reason === undefined ? StaticError.of(code, message) : new ConnectionError(reason, message)
}
