/**
 * All operations as unary calls, and Subscribe for browsers, in gRPC, gRPC-Web and Connect through the RPC library.
 * Calls become messages of a session: method `SendMessage` is the field `send_message` of both envelopes.
 */
import { create, type DescMethodUnary, type DescService, type Message } from '@bufbuild/protobuf'
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
  type MethodImpl,
} from '@connectrpc/connect'
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from '@connectrpc/connect-node'
import { createAsyncIterable, type UniversalHandler } from '@connectrpc/connect/protocol'
import { subjectOf } from '@static/node/address'
import { ENVELOPE_LIMITS, SESSION_METADATA } from '@static/protocol'
import { type ClientMessage, ClientMessageSchema, Relay } from '@static/protocol/relay'
import type { CallHandler, Health, Peer } from '../../../ports.ts'
import { failureError, refusalError } from '../error.ts'
import { resumeMessage } from '../subscribe.ts'
import { CALL_BYTES, HANDLED_BYTES, type Holding } from '../../http2/budget.ts'
import { healthRoutes, type Watched } from '../../http2/health.ts'
import { cutOff, expire, isClosed, type HttpResponse } from '../../http2/responses.ts'
import { checkBody, isJson, MOST_STRANGER_BYTES, readBody } from './body.ts'
import { pushes } from './push.ts'

/** Enough for the longest message. JSON is slow to parse, and senders of large commits do not use it. */
const MOST_JSON_BYTES = 1_048_576
/** Longer requests may become many objects. They wait for their turn first, unless they contain only a message. */
const MOST_QUICK_BYTES = 8192
/** The longest envelope, and room for the framing. */
const MOST_CALL_BYTES: number = ENVELOPE_LIMITS.member + 65_536

type NodeServerRequest = Parameters<typeof universalRequestFromNodeRequest>[0]
type Reply = Parameters<typeof universalResponseToNodeResponse>[0]

/** Limits of unary calls. */
export interface UnaryLimits {
  /** Time in milliseconds for a request to arrive, and for a response to be read. */
  readonly bodyMs: number
  /** Bytes that may wait for the reader of a subscription. */
  readonly unsentBytes: number
  /** Time in milliseconds in which a stream must close after its end was sent. */
  readonly closeMs: number
}

export interface UnaryOptions {
  readonly calls: CallHandler
  readonly health: () => Health
  readonly limits: UnaryLimits
  /** Aborts the subscriptions. */
  readonly stopping: AbortSignal
  /** Called for an internal failure. */
  readonly failed: (error: unknown) => void
}

/** Answers a request, which holds `CALL_BYTES`, unless it is for none of the methods. */
export type UnaryHandler = (
  path: string,
  request: NodeServerRequest,
  response: HttpResponse,
  peer: Peer,
  holding: Holding,
) => boolean

interface CallContext {
  readonly peer: Peer
  readonly response: HttpResponse
  readonly holding: Holding
  /** Whether the relay handles the call. */
  isHandled: boolean
  /** The part of `CALL_BYTES` returned meanwhile. */
  lent: number
}

const callKey = createContextKey<CallContext | undefined>(undefined)

export function makeUnaryHandler(options: UnaryOptions): UnaryHandler {
  const router = createConnectRouter({
    readMaxBytes: MOST_CALL_BYTES,
    writeMaxBytes: MOST_CALL_BYTES,
    // Ciphertext does not compress, and compressed lengths would undo the padding.
    acceptCompression: [],
  })
  relayRoutes(router, options)
  healthRoutes(router, options.health, (context) => watchedOf(context, options))
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]))
  return (path, request, response, peer, holding) => {
    const handler = handlers.get(path)
    if (handler === undefined) return false
    answer(handler, request, { peer, response, holding, isHandled: false, lent: 0 }, options).catch(
      (error: unknown) => {
        // A caller that disconnects is not a failure.
        if (!isClosed(response)) options.failed(error)
        response.destroy()
      },
    )
    return true
  }
}

function relayRoutes(router: ConnectRouter, { calls, limits, stopping }: UnaryOptions): void {
  const { methods }: DescService = Relay
  for (const method of methods.filter((method): method is DescMethodUnary => method.methodKind === 'unary')) {
    const field = fieldOf(method)
    const implementation: MethodImpl<DescMethodUnary> = async (input, context) => {
      checkOneofs(method, input)
      const message = create(ClientMessageSchema, {
        requestId: 1n,
        sessionToken: tokenOf(context),
        body: { case: field, value: input } as ClientMessage['body'],
      })
      const { signal } = context
      const call = callOf(context)
      handOver(call, calls.knows(message.sessionToken))
      const reply = await untilAborted(calls.call(call.peer, message, signal), signal).catch((error: unknown) => {
        throw failureError(error)
      })
      if (reply.body.case === 'error') throw refusalError(reply.body.value)
      if (reply.body.case !== field) throw new Error(`${method.name} was answered by ${reply.body.case}.`)
      if (reply.sessionToken !== '') context.responseHeader.set(SESSION_METADATA, reply.sessionToken)
      return reply.body.value
    }
    router.rpc<DescMethodUnary>(method, implementation)
  }
  router.rpc(Relay.method.subscribe, (request, context) => {
    const call = callOf(context)
    const token = tokenOf(context)
    handOver(call, calls.knows(token))
    return pushes({
      subscribe: (sink) => calls.subscribe(call.peer, resumeMessage(request, token), sink),
      signal: AbortSignal.any([context.signal, stopping]),
      unsentBytes: limits.unsentBytes,
      refused: () => takeBack(call, 0),
      ended: () => expire(call.response, limits.closeMs),
    })
  })
}

/** A watch of the relay's health holds little: it has at most one status to send. */
function watchedOf(context: HandlerContext, { stopping, limits }: UnaryOptions): Watched {
  const call = callOf(context)
  return {
    subject: subjectOf(call.peer.address),
    open: (closed) => {
      handOver(call, true)
      call.response.once('close', closed)
    },
    gone: context.signal,
    stopping,
    ended: () => expire(call.response, limits.closeMs),
  }
}

/** Hands the call to the relay, which may take long. */
function handOver(call: CallContext, isKnown: boolean): void {
  call.isHandled = true
  call.lent = isKnown ? CALL_BYTES - HANDLED_BYTES : 0
  call.holding.give(call.lent)
}

/** Reserves memory for the answer until it is read. Returns false if the call is cut off. */
async function takeBack(call: CallContext, bytes: number): Promise<boolean> {
  const isHeld = await call.holding.takeSoon(call.lent + bytes)
  call.isHandled = false
  call.lent = 0
  if (!isHeld) cutOff(call.response)
  return isHeld && !isClosed(call.response)
}

/** The field of the envelope for a method's request. */
function fieldOf(method: DescMethodUnary): string {
  const field = ClientMessageSchema.fields.find(({ localName }) => localName === method.localName)
  if (field?.message?.typeName !== method.input.typeName)
    throw new TypeError(`${method.name} has no field in the envelope.`)
  return field.localName
}

/** Checks choices, which JSON can leave unset. The other encodings are rejected earlier. */
function checkOneofs(method: DescMethodUnary, input: Message): void {
  for (const { localName, name } of method.input.oneofs) {
    const choice = (input as Message & Record<string, { readonly case?: string }>)[localName]
    if (choice?.case === undefined) throw new ConnectError(`\`${name}\` is required.`, Code.InvalidArgument)
  }
}

function callOf(context: HandlerContext): CallContext {
  const call = context.values.get(callKey)
  if (call === undefined) throw new TypeError('A call has no context.')
  return call
}

function tokenOf(context: HandlerContext): string {
  return context.requestHeader.get(SESSION_METADATA) ?? ''
}

/** A caller's deadline ends the wait, not the work. */
async function untilAborted<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  let stop = (): void => {}
  const aborted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(ConnectError.from(signal.reason, Code.Canceled))
    signal.addEventListener('abort', stop)
    if (signal.aborted) stop()
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

async function answer(
  handler: UniversalHandler,
  request: NodeServerRequest,
  context: CallContext,
  { calls, limits }: UnaryOptions,
): Promise<void> {
  const { response, holding } = context
  const values = createContextValues().set(callKey, context)
  let call: ReturnType<typeof universalRequestFromNodeRequest>
  try {
    call = universalRequestFromNodeRequest(request, response, undefined, values)
  } catch {
    // The host name is invalid.
    response.writeHead(400, { 'content-type': 'application/json' }).end('{"code":"invalid_request"}')
    expire(response, limits.closeMs)
    return
  }
  const type = call.header.get('content-type') ?? ''
  let body: Uint8Array | ConnectError
  try {
    const most = mostBytes(handler, call.header, type, calls)
    const grant = (bytes: number): boolean => holding.take(bytes)
    body = await readBody(request, most, limits.bodyMs, grant)
    const isLong = body.length > MOST_QUICK_BYTES && handler.method !== Relay.method.sendMessage
    if (isLong) await calls.turn(context.peer, () => isClosed(response))
    checkBody(handler.method.input, type, body, grant)
  } catch (error) {
    body = ConnectError.from(error)
  }
  // The library would allocate the length that a peer announces.
  call.header.delete('content-length')
  const reply = await handler({ ...call, body: oneChunk(body) })
  const isOpen = handler.method.methodKind !== 'unary' && context.isHandled
  if (!isOpen) expire(response, body instanceof ConnectError ? limits.closeMs : limits.bodyMs)
  const whole = isOpen ? reply : await wholeReply(reply, context)
  if (whole) await universalResponseToNodeResponse(whole, response)
}

/** The whole reply, which holds memory until it is read; undefined if there is no room for it. */
async function wholeReply(reply: Reply, context: CallContext): Promise<Reply | undefined> {
  const chunks = await Array.fromAsync(reply.body ?? [])
  const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
  return (await takeBack(context, bytes)) ? { ...reply, body: createAsyncIterable(chunks) } : undefined
}

function mostBytes({ method }: UniversalHandler, header: Headers, type: string, calls: CallHandler): number {
  const opening = method === Relay.method.getChallenge || method === Relay.method.openSession
  if (opening || !calls.knows(header.get(SESSION_METADATA) ?? '')) return MOST_STRANGER_BYTES
  return isJson(type) ? MOST_JSON_BYTES : MOST_CALL_BYTES
}

/** The body as the library expects it. A read error is reported in the form of each protocol. */
async function* oneChunk(body: Uint8Array | ConnectError): AsyncGenerator<Uint8Array> {
  if (body instanceof ConnectError) throw body
  yield body
}
