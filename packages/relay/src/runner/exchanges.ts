/** Unary calls and subscriptions. To the core each is a stream that carries messages, not cells. */
import { toBinary } from '@bufbuild/protobuf'
import { subjectOf } from '@static/node/address'
import { StaticError } from '@static/protocol'
import { type ClientMessage, ClientMessageSchema, type ServerMessage } from '@static/protocol/relay'
import type { Peer, PushSink, StreamId, Subscription, Time } from '../ports.ts'
import { holdsBody, isCostly, REQUEST_BYTES, type RunnerContext } from './context.ts'

interface Exchange {
  /** Since when a subscriber has read nothing. */
  congestedSince?: Time | undefined
  write(message: ServerMessage): void
  end(): void
}

/** The open calls and subscriptions. */
export class Exchanges {
  readonly #context: RunnerContext
  readonly #open = new Map<StreamId, Exchange>()

  constructor(context: RunnerContext) {
    this.#context = context
  }

  get size(): number {
    return this.#open.size
  }

  turn(peer: Peer, isGone: () => boolean): Promise<void> {
    return new Promise((run) => this.#context.turns.add(subjectOf(peer.address), { run, isGone }))
  }

  call(peer: Peer, message: ClientMessage, signal?: AbortSignal): Promise<ServerMessage> {
    const { handle, nextStream } = this.#context
    const { promise, resolve, reject } = Promise.withResolvers<ServerMessage>()
    const id = nextStream()
    const done = (): void => {
      if (this.#open.delete(id)) handle({ type: 'closed', stream: id })
    }
    this.#open.set(id, {
      write: (answer) => {
        resolve(answer)
        // Not while the current effects are being carried out.
        queueMicrotask(done)
      },
      end: done,
    })
    // Ends the exchange, and a poll with it, when the caller disconnects.
    signal?.addEventListener('abort', () => {
      done()
      reject(StaticError.of('closed', 'The caller has disconnected.'))
    })
    handle({ type: 'opened', stream: id, peer, kind: 'call' })
    this.#received(id, peer, message)
    return promise
  }

  subscribe(peer: Peer, message: ClientMessage, sink: PushSink): Subscription {
    const { handle, now, nextStream } = this.#context
    const id = nextStream()
    const exchange: Exchange = {
      write: (push) => {
        if (sink.write(push)) return
        exchange.congestedSince ??= now()
        // Reported immediately, so that later entries of this turn stay in the log.
        handle({ type: 'congested', stream: id })
      },
      end: () => {
        this.#open.delete(id)
        sink.end()
      },
    }
    this.#open.set(id, exchange)
    handle({ type: 'opened', stream: id, peer, kind: 'subscribe' })
    this.#received(id, peer, message)
    return {
      room: () => {
        exchange.congestedSince = undefined
        handle({ type: 'drained', stream: id })
      },
      close: () => {
        if (this.#open.delete(id)) handle({ type: 'closed', stream: id })
      },
    }
  }

  #received(id: StreamId, peer: Peer, message: ClientMessage): void {
    const { handle, turns } = this.#context
    const run = (): void => handle({ type: 'received', stream: id, message, bytes: sizeOf(message) })
    if (isCostly(message.body.case)) turns.add(subjectOf(peer.address), { run, isGone: () => !this.#open.has(id) })
    else run()
  }

  write(id: StreamId, message: ServerMessage): void {
    this.#open.get(id)?.write(message)
  }

  end(id: StreamId): void {
    this.#open.get(id)?.end()
  }

  /** Gives subscribers that much more time to read. */
  excuse(ms: number): void {
    for (const exchange of this.#open.values()) if (exchange.congestedSince !== undefined) exchange.congestedSince += ms
  }

  /** Reports subscribers that have read nothing for too long to the core. */
  tick(now: Time): void {
    const { settings, handle } = this.#context
    const { stallMs } = settings.session
    for (const [id, { congestedSince }] of this.#open) {
      if (congestedSince !== undefined && now - congestedSince > stallMs) handle({ type: 'stalled', stream: id })
    }
  }
}

/** Approximate memory of a request that did not come in cells. */
function sizeOf(message: ClientMessage): number {
  return holdsBody(message) ? toBinary(ClientMessageSchema, message).length : REQUEST_BYTES
}
