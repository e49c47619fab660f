/** The web server: plumbing around the routes. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { LogController, type FastifyBaseLogger, type FastifyReply, type FastifyRequest } from 'fastify'
import Type from 'typebox'
import { subjectOf } from '@static/node/address'
import type { Logger } from '@static/node/logger'
import { StaticError } from '@static/protocol'
import { newId } from '../rules/id.ts'
import type { Service } from '../service.ts'
import type { App } from './app.ts'
import { commonHeaders, isLoopbackName, rateHeaders } from './headers.ts'
import { useStrictJson } from './json.ts'
import { type Certificate, makeServer, tlsOptions } from './listener.ts'
import { PROBLEM_TYPE, problemOf, toStaticError } from './problem.ts'
import { useOpenApi } from './openapi.ts'
import { problemSchema } from './schemas.ts'
import { buildSerializer } from './serialize.ts'

/** How the server presents itself. */
export interface ServerOptions {
  readonly service: Service
  readonly log: FastifyBaseLogger & Pick<Logger, 'isLevelEnabled'>
  readonly certificate: Certificate | undefined
  /** The host name that users see. */
  readonly name: string
  /** The address that users see, known once the port is. */
  readonly url: () => string
  /** Proxies whose word on the client's address is believed. */
  readonly trustedProxies: readonly string[]
}

/** A web server with its routes, and a way to give it a new certificate. */
export interface WebServer {
  readonly app: App
  /** Listens; `localhost` means both loopback addresses. Resolves to the port. */
  listen(host: string, port: number): Promise<number>
  renew(certificate: Certificate): void
  /** Cuts off every connection, for a shutdown that took too long. */
  cutOff(): void
}

/** Makes a web server; `addRoutes` is called once the plumbing is in place. */
export async function makeWebServer(options: ServerOptions, addRoutes: (app: App) => void): Promise<WebServer> {
  const { service, log, certificate, url } = options
  // Lines are written by the hooks below, which name the request themselves: none needs a logger of its own.
  const loggerInstance: FastifyBaseLogger = Object.create(log, { child: { value: () => loggerInstance } })
  const servers: ReturnType<typeof makeServer>[] = []
  let make: () => (typeof servers)[number]
  const common = commonHeaders(!isLoopbackName(options.name))
  const fail = (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const known = toStaticError(error)
    if (known.httpStatus >= 500) request.log.error({ err: known.cause ?? known, request_id: request.id }, known.message)
    const { retryAfter } = known.details
    if (known.httpStatus === 429 || known.httpStatus === 503) reply.header('retry-after', retryAfter ?? 1)
    if (known.httpStatus === 401) {
      const sent = request.headers.authorization !== undefined ? ', error="invalid_token"' : ''
      reply.header('www-authenticate', `Bearer realm="static-api"${sent}`)
    }
    return reply
      .code(known.httpStatus)
      .type(PROBLEM_TYPE)
      .send(problemOf(known, request.id, url()))
  }

  const app: App = Fastify({
    loggerInstance,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => newId(service.now()),
    requestIdHeader: false,
    bodyLimit: service.settings.bodyBytes,
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    trustProxy: options.trustedProxies.length > 0 ? [...options.trustedProxies] : false,
    schemaController: { compilersFactory: { buildSerializer } },
    routerOptions: { maxParamLength: service.settings.bodyBytes },
    serverFactory: (handler) => {
      make = () => {
        const server = makeServer(handler, service.settings.http, certificate, url, (address) => ({
          ...common,
          ...rateHeaders([service.limits.failures.state(address)]),
        }))
        servers.push(server)
        return server
      }
      return make()
    },
    // What is refused before a route is found passes no hook.
    frameworkErrors: (error, request, reply) => {
      welcome(request, reply)
      tellRates(request, reply)
      fail(error, request, reply)
    },
  }).withTypeProvider<TypeBoxTypeProvider>()
  app.decorateRequest('visit')
  app.decorateRequest('caller')
  app.decorateRequest('key')
  app.addSchema(problemSchema)
  useStrictJson(app)

  const welcome = (request: FastifyRequest, reply: FastifyReply): void => {
    const address = subjectOf(request.ip)
    request.visit = { address, rates: [] }
    reply.header('x-request-id', request.id).headers(common)
  }
  const tellRates = (request: FastifyRequest, reply: FastifyReply): void => {
    const { rates, address } = request.visit
    // Every address has this limit, also where a request met no other.
    if (rates.length === 0) rates.push(service.limits.failures.state(address))
    reply.headers(rateHeaders(rates))
  }
  app.addHook('onRequest', (request, reply, done) => {
    welcome(request, reply)
    done()
  })
  let closing = false
  app.addHook('preClose', (done) => {
    closing = true
    done()
  })
  app.addHook('onSend', (request, reply, _payload, done) => {
    // A kept connection would hold the shutdown up.
    if (closing) reply.header('connection', 'close')
    tellRates(request, reply)
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    // What went well is in the metrics; the log is for what somebody may have to look at.
    const level = reply.statusCode < 400 ? 'debug' : 'info'
    if (log.isLevelEnabled(level)) {
      const route = request.routeOptions.url ?? null
      const { method, id } = request
      log[level](
        { request_id: id, method, route, status: reply.statusCode, ms: Math.round(reply.elapsedTime) },
        'answered',
      )
    }
    done()
  })
  app.setErrorHandler(fail)
  app.setNotFoundHandler((request, reply) =>
    fail(StaticError.of('not_found', 'There is nothing at this path.'), request, reply),
  )
  await useOpenApi(app)
  const refuseOthers = watchMethods(app)
  addRoutes(app)
  refuseOthers()
  // The library closes its own server; the one for the second loopback address is ours.
  app.addHook('onClose', async () => {
    const [, second] = servers
    if (!second?.listening) return
    const closed = once(second, 'close')
    second.close()
    second.closeIdleConnections()
    await closed
  })
  return {
    app,
    async listen(host, port) {
      // The library says http of every server that it did not make itself.
      const listenTextResolver = (at: string): string => `listening on ${at.replace(/^https?:\/\//, '')}`
      await app.listen({ host: host === 'localhost' ? '127.0.0.1' : host, port, listenTextResolver })
      const bound = (app.server.address() as AddressInfo).port
      if (host === 'localhost') await listenAlso(make(), bound)
      return bound
    },
    cutOff() {
      for (const server of servers) server.closeAllConnections()
    },
    renew(fresh) {
      for (const server of servers) {
        if ('setSecureContext' in server) server.setSecureContext(tlsOptions(fresh))
      }
    },
  }
}

/** Takes the other loopback address too, where there is one: or another user of this machine could. */
async function listenAlso(server: ReturnType<typeof makeServer>, port: number): Promise<void> {
  try {
    server.listen(port, '::1')
    await once(server, 'listening')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EADDRNOTAVAIL' && code !== 'EAFNOSUPPORT') throw error
  }
}

/** Completes every route that is added from now on; the returned function answers 405 to their other methods. */
function watchMethods(app: App): () => void {
  const methods = new Map<string, Set<string>>()
  app.addHook('onRoute', (route) => {
    const { url, method, schema } = route
    // Unknown parameters are refused like unknown fields.
    if (schema && !schema.hide) schema.querystring ??= Type.Object({}, { additionalProperties: false })
    const known = methods.get(url) ?? new Set()
    for (const name of [method].flat()) known.add(name)
    methods.set(url, known)
  })
  return () => {
    for (const [url, known] of methods) {
      const others = app.supportedMethods.filter((method) => !known.has(method))
      const allow = [...known].join(', ')
      app.route({
        method: others,
        url,
        schema: { hide: true },
        // Before the body is read: what it holds does not matter.
        onRequest: (_request, reply, done) => {
          reply.header('allow', allow)
          done(StaticError.of('method_not_allowed', `This path knows ${allow}.`))
        },
        handler: () => undefined,
      })
    }
  }
}
