/**
 * All operations as unary calls, and Subscribe for browsers, in gRPC, gRPC-Web and Connect through the RPC library.
 * Calls become messages of a session: method `SendMessage` is the field `send_message` of both envelopes.
 */
import type { ServerResponse } from 'node:http'
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
import type { UniversalHandler } from '@connectrpc/connect/protocol'
import { subjectOf } from '@static/node/address'
import { ENVELOPE_LIMITS, SESSION_METADATA } from '@static/protocol'
import { type ClientMessage, ClientMessageSchema, Relay } from '@static/protocol/relay'
import type { CallHandler, Health, Peer } from '../../../ports.ts'
import { failureError, refusalError } from '../error.ts'
import { resumeMessage } from '../subscribe.ts'
import { healthRoutes } from '../../http2/health.ts'
import { type BodyBudget, checkBody, isJson, MOST_STRANGER_BYTES, readBody } from './body.ts'
import { pushes } from './push.ts'

/** Enough for the longest message. JSON is slow to parse, and senders of large commits do not use it. */
const MOST_JSON_BYTES = 1_048_576
/** The longest envelope, and room for the framing. */
const MOST_CALL_BYTES: number = ENVELOPE_LIMITS.member + 65_536

type NodeServerRequest = Parameters<typeof universalRequestFromNodeRequest>[0]
type NodeServerResponse = Parameters<typeof universalResponseToNodeResponse>[1]

/** Limits of unary calls. */
export interface UnaryLimits {
  /** Time in milliseconds for a request to arrive, and for a response to be read. */
  readonly bodyMs: number
  /** Bytes that may wait for the reader of a subscription. */
  readonly unsentBytes: number
  /** Time in milliseconds in which a stream must close after its end was sent. */
  readonly closeMs: number
}

/** Options of the call handler. */
export interface UnaryOptions {
  readonly calls: CallHandler
  readonly health: () => Health
  readonly limits: UnaryLimits
  readonly budget: BodyBudget
  /** Aborts the subscriptions. */
  readonly stopping: AbortSignal
  /** Called for an internal failure. */
  readonly failed: (error: unknown) => void
}

/** Answers a request, unless it is for none of the methods. */
export type UnaryHandler = (
  path: string,
  request: NodeServerRequest,
  response: NodeServerResponse,
  peer: Peer,
) => boolean

/** The context of a call. */
interface CallContext {
  readonly peer: Peer
  /** Cuts the response off if it is not read in time. */
  readonly expire: (ms: number) => void
}

const callKey = createContextKey<CallContext | undefined>(undefined)

/** Creates the handler of all calls. */
export function makeUnaryHandler(options: UnaryOptions): UnaryHandler {
  const router = createConnectRouter({
    readMaxBytes: MOST_CALL_BYTES,
    writeMaxBytes: MOST_CALL_BYTES,
    // Ciphertext does not compress, and compressed lengths would undo the padding.
    acceptCompression: [],
  })
  relayRoutes(router, options)
  healthRoutes(router, options.health)
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]))
  return (path, request, response, peer) => {
    const handler = handlers.get(path)
    if (handler === undefined) return false
    answer(handler, request, response, peer, options).catch((error: unknown) => {
      // A caller that disconnects is not a failure.
      if (!request.destroyed) options.failed(error)
      response.destroy()
    })
    return true
  }
}

function relayRoutes(router: ConnectRouter, { calls, limits, stopping }: UnaryOptions): void {
  const { methods }: DescService = Relay
  for (const method of methods.filter((method): method is DescMethodUnary => method.methodKind === 'unary')) {
    const field = fieldOf(method)
    const call: MethodImpl<DescMethodUnary> = async (input, context) => {
      checkOneofs(method, input)
      const message = create(ClientMessageSchema, {
        requestId: 1n,
        sessionToken: tokenOf(context),
        body: { case: field, value: input } as ClientMessage['body'],
      })
      const { signal } = context
      const reply = await untilAborted(calls.call(callOf(context).peer, message, signal), signal).catch(
        (error: unknown) => {
          throw failureError(error)
        },
      )
      if (reply.body.case === 'error') throw refusalError(reply.body.value)
      if (reply.body.case !== field) throw new Error(`${method.name} was answered by ${reply.body.case}.`)
      if (reply.sessionToken !== '') context.responseHeader.set(SESSION_METADATA, reply.sessionToken)
      return reply.body.value
    }
    router.rpc<DescMethodUnary>(method, call)
  }
  router.rpc(Relay.method.subscribe, (request, context) => {
    const { peer, expire } = callOf(context)
    return pushes({
      subscribe: (sink) => calls.subscribe(peer, resumeMessage(request, tokenOf(context)), sink),
      signal: AbortSignal.any([context.signal, stopping]),
      unsentBytes: limits.unsentBytes,
      ended: () => expire(limits.closeMs),
    })
  })
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
  response: NodeServerResponse,
  peer: Peer,
  { calls, limits, budget }: UnaryOptions,
): Promise<void> {
  const subject = subjectOf(peer.address)
  let held = 0
  let gone = false
  response.once('close', () => {
    gone = true
    budget.give(subject, held)
  })
  const grant = (bytes: number): boolean => {
    if (gone || !budget.take(subject, bytes)) return false
    held += bytes
    return true
  }
  // So that neither a peer that does not read nor one that does not end its half keeps the stream open.
  const expire = (ms: number): void => {
    if (gone) return
    const late = setTimeout(() => response.destroy(), ms)
    response.once('close', () => clearTimeout(late))
  }
  const values = createContextValues().set(callKey, { peer, expire })
  let call: ReturnType<typeof universalRequestFromNodeRequest>
  try {
    call = universalRequestFromNodeRequest(request, response, undefined, values)
  } catch {
    // The host name is invalid.
    ;(response as ServerResponse)
      .writeHead(400, { 'content-type': 'application/json' })
      .end('{"code":"invalid_request"}')
    return
  }
  const type = call.header.get('content-type') ?? ''
  let body: Uint8Array | ConnectError
  try {
    body = await readBody(request, mostBytes(handler, call.header, type, calls), limits.bodyMs, grant)
    checkBody(handler.method.input, type, body)
  } catch (error) {
    body = ConnectError.from(error)
  }
  // The library would allocate what a peer announces.
  call.header.delete('content-length')
  const reply = await handler({ ...call, body: oneChunk(body) })
  if (body instanceof ConnectError) expire(limits.closeMs)
  else if (handler.method.methodKind === 'unary') expire(limits.bodyMs)
  await universalResponseToNodeResponse(reply, response)
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
