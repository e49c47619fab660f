/** `Subscribe` over native gRPC, framed here like the sessions. */
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import { create } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import { ENVELOPE_LIMITS, frameMessage, GRPC_PREFIX_BYTES, SESSION_METADATA } from '@static/protocol'
import { encodeEnvelope } from '@static/protocol/envelope'
import {
  type ClientMessage,
  ClientMessageSchema,
  ServerMessageSchema,
  type SubscribeRequest,
  SubscribeRequestSchema,
} from '@static/protocol/relay'
import type { CallHandler, Peer, PushSink } from '../../ports.ts'
import { CALL_BYTES, HANDLED_BYTES, type Holding } from '../http2/budget.ts'
import { refusalError } from './error.ts'
import { GrpcStream, objection, type StreamLimits } from './stream.ts'
import { decodedBytes, decodeMessage, MOST_STRANGER_BYTES, noRoom, readBody, unframeMessage } from './unary/body.ts'

/** Limits of a subscription. */
export interface SubscribeLimits extends StreamLimits {
  /** Time in milliseconds in which the request must arrive. */
  readonly bodyMs: number
}

/** A request that was read, and the memory it holds until it is answered. */
interface HeldRequest {
  readonly message: ClientMessage
  readonly bytes: number
}

/** The message that opens a subscription: as if the agent had resumed on a session. */
export function resumeMessage(request: SubscribeRequest, token: string): ClientMessage {
  return create(ClientMessageSchema, {
    requestId: 1n,
    sessionToken: token,
    body: { case: 'resume', value: { channelIds: request.channelIds } },
  })
}

/** All native gRPC subscriptions of a port. */
export class Subscriptions {
  readonly #calls: CallHandler
  readonly #limits: SubscribeLimits
  readonly #open = new Set<GrpcStream>()

  constructor(calls: CallHandler, limits: SubscribeLimits) {
    this.#calls = calls
    this.#limits = limits
  }

  /** Accepts a new stream, which holds `CALL_BYTES`. */
  accept(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, peer: Peer, holding: Holding): void {
    const reply = new GrpcStream(stream, this.#limits)
    this.#open.add(reply)
    stream.on('close', () => this.#open.delete(reply))
    const refusal = objection(headers)
    if (refusal !== undefined) {
      reply.end(refusal)
      return
    }
    const token = tokenOf(headers)
    this.#read(stream, token, holding).then(
      (request) => this.#start(stream, reply, peer, request, holding),
      (error: unknown) => reply.end(ConnectError.from(error)),
    )
  }

  /** Ends every subscription. */
  endAll(): void {
    for (const reply of this.#open) reply.end()
  }

  /** Reads the single message of the request. */
  async #read(stream: ServerHttp2Stream, token: string, holding: Holding): Promise<HeldRequest> {
    const most = this.#calls.knows(token) ? GRPC_PREFIX_BYTES + ENVELOPE_LIMITS.authenticated : MOST_STRANGER_BYTES
    const body = await readBody(stream, most, this.#limits.bodyMs, (bytes) => holding.take(bytes))
    const request = decodeRequest(body)
    const more = decodedBytes(request)
    if (!holding.take(more)) throw noRoom()
    return { message: resumeMessage(request, token), bytes: body.length + more }
  }

  #start(stream: ServerHttp2Stream, reply: GrpcStream, peer: Peer, request: HeldRequest, holding: Holding): void {
    if (reply.ended) return
    const { message } = request
    const lent = this.#calls.knows(message.sessionToken) ? CALL_BYTES - HANDLED_BYTES : 0
    holding.give(lent)
    let requestBytes = request.bytes
    let endedByHandler = false
    const sink: PushSink = {
      write(push) {
        // The first message is the answer: until then, the request may wait for its turn.
        holding.give(requestBytes)
        requestBytes = 0
        if (push.body.case !== 'error') {
          return reply.write(frameMessage(encodeEnvelope('protobuf', ServerMessageSchema, push)))
        }
        if (holding.take(lent)) reply.end(refusalError(push.body.value))
        else reply.cut(constants.NGHTTP2_ENHANCE_YOUR_CALM)
        return false
      },
      end() {
        endedByHandler = true
        reply.end()
      },
    }
    reply.open()
    const subscription = this.#calls.subscribe(peer, message, sink)
    stream.on('drain', () => subscription.room())
    stream.on('close', () => {
      if (!endedByHandler) subscription.close()
    })
  }
}

/** The session token of a request. */
function tokenOf(headers: IncomingHttpHeaders): string {
  const token = headers[SESSION_METADATA]
  return typeof token === 'string' ? token : ''
}

function decodeRequest(body: Uint8Array): SubscribeRequest {
  const { compressed, message } = unframeMessage(body)
  if (compressed) throw new ConnectError('Compressed messages are not supported.', Code.Unimplemented)
  return decodeMessage(SubscribeRequestSchema, message)
}
