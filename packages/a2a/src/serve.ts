/** The server's end: the JSON-RPC handler of `@a2a-js/sdk`, with requests in a channel instead of HTTP. */
import { A2A_VERSION_HEADER, Extensions, HTTP_EXTENSION_HEADER } from '@a2a-js/sdk'
import { RequestMalformedError } from '@a2a-js/sdk/errors'
import {
  type A2ARequestHandler,
  JsonRpcTransportHandler,
  ServerCallContext,
  STATE_HEADERS_KEY,
  validateVersion,
} from '@a2a-js/sdk/server'
import { A2A_BINDING } from '@static/protocol'
import type { Channel, ChannelRequest, MemberProof, ReceivedFile, ServeOptions } from '@static/sdk'
import { decodeEnvelope, type Envelope, isObject } from './envelope.ts'
import { dropFiles, FileTurns, namesFiles, restoreLargeParts, sendLargeParts } from './files.ts'
import { type ChannelPushNotifications, PUSH_METHOD } from './push.ts'

/** Options of `serveA2A`. */
export interface ServeA2AOptions extends ServeOptions {
  /** Delivers push notifications as answers. Pass the same one to the request handler, as its sender. */
  readonly push?: ChannelPushNotifications
}

/** The user of a call. */
export interface A2ACaller {
  readonly isAuthenticated: true
  /** The agent id. */
  readonly userName: string
  /** Who runs it, as far as it has shown that and this agent has checked it. */
  readonly proof?: MemberProof
}

/** In the `state` of a call's context: true if the call may already have been made, completely or in part. */
export const STATE_REDELIVERED_KEY = 'static.redelivered'
/** In the `state` of a call's context: the request's message id, which stays the same if the call is repeated. */
export const STATE_REQUEST_ID_KEY = 'static.requestId'

/** Streams and push notifications stay open for long, so an asker may have as many open as it may ask. */
const CONCURRENCY = 1000
const PER_ASKER = 256
const PARSE_ERROR = -32_700

/**
 * Serves A2A to the other members of a channel, until the channel or client is closed or `signal` is aborted. The user
 * of each call is its verified sender: `context.user.userName` is the agent id, and `proof`
 * (`A2ACaller`) says who runs it. Service parameters are in the context's
 * `state`, as headers are over HTTP. The Agent Card must list the binding (`a2aInterface`).
 *
 * @throws {StaticError} as `Channel.serve`
 */
export async function serveA2A(
  channel: Channel,
  requestHandler: A2ARequestHandler,
  { push, ...options }: ServeA2AOptions = {},
): Promise<void> {
  const transport = new JsonRpcTransportHandler(requestHandler)
  const turns = new FileTurns()
  const handler = (request: ChannelRequest): AsyncGenerator<string, void> =>
    answers(request, { channel, turns, requestHandler, transport, push })
  await channel.serve(handler, { concurrency: CONCURRENCY, perAsker: PER_ASKER, ...options })
}

interface Served {
  readonly channel: Channel
  readonly turns: FileTurns
  readonly requestHandler: A2ARequestHandler
  readonly transport: JsonRpcTransportHandler
  readonly push: ChannelPushNotifications | undefined
}

async function* answers(request: ChannelRequest, served: Served): AsyncGenerator<string, void> {
  const { channel } = served
  const { agentId } = request.sender
  let over = (): void => {}
  let id: unknown = null
  let files: readonly ReceivedFile[] = []
  try {
    const envelope = decodeEnvelope(textOf(request))
    id = idOf(envelope.call)
    if (namesFiles(envelope.call)) {
      over = await served.turns.take(agentId)
      files = await restoreLargeParts(channel, agentId, envelope.call)
    }
    const context = contextOf(request, envelope)
    validateVersion(context.requestedVersion, await served.requestHandler.getAgentCard(), A2A_BINDING)
    if (envelope.call['method'] === PUSH_METHOD && served.push) {
      const { jsonrpc, params } = envelope.call
      if (jsonrpc !== '2.0') throw new RequestMalformedError('Invalid JSON-RPC Request.')
      if (!isObject(params)) throw new RequestMalformedError('Invalid method parameters.')
      for await (const event of served.push.subscribe(served.requestHandler, params, request, context)) {
        yield await sendLargeParts(channel, JSON.stringify({ jsonrpc, id, result: event }))
      }
      return
    }
    const response = await served.transport.handle({ ...envelope.call }, context)
    if (!(Symbol.asyncIterator in response)) yield await sendLargeParts(channel, JSON.stringify(response))
    else
      for await (const each of response) {
        // A stream may stay open for days.
        over()
        yield await sendLargeParts(channel, JSON.stringify(each))
      }
  } catch (error) {
    yield JSON.stringify({ jsonrpc: '2.0', id, error: errorOf(error) })
  } finally {
    // Not before: a server that was killed gets the call once more.
    over()
    await dropFiles(files)
  }
}

/** The text of a request. Bytes that are not UTF-8 are not JSON either. */
function textOf(request: ChannelRequest): string {
  try {
    return request.text()
  } catch (cause) {
    throw new SyntaxError('Not UTF-8.', { cause })
  }
}

/** As over HTTP, invalid JSON has its own error. */
function errorOf(error: unknown): unknown {
  if (error instanceof SyntaxError) return { code: PARSE_ERROR, message: 'Invalid JSON payload.' }
  return JsonRpcTransportHandler.mapToJSONRPCError(error)
}

function idOf({ id }: Envelope['call']): unknown {
  return typeof id === 'string' || typeof id === 'number' ? id : null
}

function callerOf({ agentId, proof }: ChannelRequest['sender']): A2ACaller {
  return { isAuthenticated: true, userName: agentId, ...(proof && { proof }) }
}

function contextOf({ sender, redelivered, messageId }: ChannelRequest, { parameters }: Envelope): ServerCallContext {
  const requestedVersion = parameters[A2A_VERSION_HEADER.toLowerCase()]
  const extensions = Extensions.parseServiceParameter(parameters[HTTP_EXTENSION_HEADER.toLowerCase()])
  return new ServerCallContext({
    user: callerOf(sender),
    ...(requestedVersion === undefined ? {} : { requestedVersion }),
    requestedExtensions: extensions,
    state: new Map<string, unknown>([
      [STATE_HEADERS_KEY, parameters],
      [STATE_REDELIVERED_KEY, redelivered],
      [STATE_REQUEST_ID_KEY, messageId],
    ]),
  })
}
