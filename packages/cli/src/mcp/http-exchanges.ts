/**
 * MCP over HTTP. In the 2026 revision each request stands for itself. In the 2025 revisions a handshake begins a
 * session, because a host cancels a request by another one, which names it only within its session.
 */
import { randomUUID } from 'node:crypto'
import {
  createMcpHandler,
  isLegacyRequest,
  type McpHttpHandler,
  type Server,
  WebStandardStreamableHTTPServerTransport as Transport,
} from '@modelcontextprotocol/server'
import type { RequestId } from './handed-over.ts'

/** A request whose answer may deliver messages. */
export interface Exchange {
  /** Unique among all hosts, unlike the id that the host has chosen. */
  readonly key: RequestId | undefined
  /** The key of the request that this one cancels. */
  readonly cancelled: RequestId | undefined
  answer(): Promise<Response>
}

/** Makes the server of a connection or request. Its calls are known by the key for their ids. */
export type MakeServer = (keyOf: (id: RequestId) => RequestId) => Server

interface HostSession {
  readonly server: Server
  readonly transport: Transport
  /** Requests in progress, and whether it listens. */
  running: number
}

/** A host has one session; more than this are of hosts that have ended without a word. */
const MOST_SESSIONS = 32
const SESSION_HEADER = 'mcp-session-id'
/** This server announces nothing. */
const MOST_SUBSCRIPTIONS = 8

/** The hosts of a server. */
export class HttpExchanges {
  readonly #make: MakeServer
  readonly #modern: McpHttpHandler
  readonly #keys = new WeakMap<Request, (id: RequestId) => RequestId>()
  /** The least recently used first. */
  readonly #sessions = new Map<string, HostSession>()
  #count = 0

  constructor(make: MakeServer) {
    this.#make = make
    const factory = ({ requestInfo }: { readonly requestInfo?: Request }): Server => {
      return make((requestInfo && this.#keys.get(requestInfo)) ?? ((id) => id))
    }
    this.#modern = createMcpHandler(factory, { legacy: 'reject', maxSubscriptions: MOST_SUBSCRIPTIONS })
  }

  /** The exchange of a request, with its body as JSON, if it has one. */
  async begin(request: Request, body: unknown): Promise<Exchange> {
    const { id, method, cancels } = callOf(body)
    if (await isLegacyRequest(request, body)) {
      const session = request.headers.get(SESSION_HEADER) ?? ''
      const keyOf = keysOf(session)
      return {
        key: id === undefined ? undefined : keyOf(id),
        cancelled: cancels === undefined ? undefined : keyOf(cancels),
        answer: () => (method === 'initialize' ? this.#open(request, body) : this.#continue(session, request, body)),
      }
    }
    const keyOf = keysOf(`request ${++this.#count}`)
    this.#keys.set(request, keyOf)
    return {
      key: id === undefined ? undefined : keyOf(id),
      cancelled: undefined,
      answer: () => this.#modern.fetch(request, { parsedBody: body }),
    }
  }

  async close(): Promise<void> {
    await this.#modern.close()
    for (const name of this.#sessions.keys()) await this.#end(name)
  }

  async #open(request: Request, body: unknown): Promise<Response> {
    // Everything before the first await, so that hosts that begin at the same time cannot exceed the limit.
    const [idle] = [...this.#sessions].find(([, { running }]) => running === 0) ?? []
    const isFull = this.#sessions.size >= MOST_SESSIONS
    if (isFull && idle === undefined) return refused(503, `${MOST_SESSIONS} hosts use this server, the limit.`)
    const name = randomUUID()
    let isInitialized = false
    const transport = new Transport({
      sessionIdGenerator: () => name,
      enableJsonResponse: true,
      onsessioninitialized: () => void (isInitialized = true),
      onsessionclosed: () => void this.#sessions.delete(name),
    })
    const session: HostSession = { server: this.#make(keysOf(name)), transport, running: 0 }
    const ending = isFull && idle !== undefined ? this.#end(idle) : undefined
    this.#sessions.set(name, session)
    count(session, request)
    try {
      await ending
      await session.server.connect(transport)
      return await answer(session, request, body)
    } finally {
      // The agent could not be opened, or the request was wrong.
      if (!isInitialized) await this.#end(name)
    }
  }

  async #continue(name: string, request: Request, body: unknown): Promise<Response> {
    const session = this.#sessions.get(name)
    if (!session) return refused(name === '' ? 400 : 404, 'This session does not exist. Begin with `initialize`.')
    this.#sessions.delete(name)
    this.#sessions.set(name, session)
    count(session, request)
    return await answer(session, request, body)
  }

  async #end(name: string): Promise<void> {
    const session = this.#sessions.get(name)
    this.#sessions.delete(name)
    await session?.server.close()
  }
}

/** Counts a request of a session until its host has the answer, or is gone. */
function count(session: HostSession, { signal }: Request): void {
  if (signal.aborted) return
  session.running++
  signal.addEventListener('abort', () => session.running--)
}

async function answer({ transport }: HostSession, request: Request, body: unknown): Promise<Response> {
  return await transport.handleRequest(request, body === undefined ? {} : { parsedBody: body })
}

function keysOf(place: string): (id: RequestId) => RequestId {
  return (id) => `${place} ${JSON.stringify(id)}`
}

/** A refusal as JSON-RPC. */
export function refused(status: number, message: string): Response {
  return Response.json({ jsonrpc: '2.0', error: { code: -32_000, message }, id: null }, { status })
}

/** What matters of a message here. */
function callOf(body: unknown): {
  readonly id?: RequestId | undefined
  readonly method?: unknown
  readonly cancels?: RequestId | undefined
} {
  if (typeof body !== 'object' || body === null) return {}
  const { id, method, params } = body as Readonly<Record<string, unknown>>
  const isCancel = method === 'notifications/cancelled' && typeof params === 'object' && params !== null
  const cancels = isCancel ? (params as Readonly<Record<string, unknown>>)['requestId'] : undefined
  return { id: isId(id) ? id : undefined, method, cancels: isId(cancels) ? cancels : undefined }
}

function isId(value: unknown): value is RequestId {
  return typeof value === 'string' || typeof value === 'number'
}
