/** The web server: plumbing around the routes. */
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { LogController, type FastifyBaseLogger, type FastifyReply, type FastifyRequest } from 'fastify'
import { StaticError } from '@static/protocol'
import { newId } from '../id.ts'
import type { Service } from '../service.ts'
import { subjectOf } from './address.ts'
import type { App } from './app.ts'
import { isLoopbackName, setCommonHeaders, setRateHeaders } from './headers.ts'
import { useStrictJson } from './json.ts'
import { type Certificate, makeServer, tlsOptions } from './listener.ts'
import { PROBLEM_TYPE, problemOf, toStaticError } from './problem.ts'
import { useOpenApi } from './openapi.ts'
import { problemSchema } from './schemas.ts'

/** How the server presents itself. */
export interface ServerOptions {
  readonly service: Service
  readonly log: FastifyBaseLogger
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
  renew(certificate: Certificate): void
}

/** Makes a web server; `addRoutes` is called once the plumbing is in place. */
export async function makeWebServer(options: ServerOptions, addRoutes: (app: App) => void): Promise<WebServer> {
  const { service, log, certificate, url } = options
  const servers: ReturnType<typeof makeServer>[] = []
  const hsts = !isLoopbackName(options.name)
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
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true }),
    // Lines are written by the hooks below, which name the request themselves.
    childLoggerFactory: (logger) => logger,
    genReqId: () => newId(service.now()),
    requestIdHeader: false,
    bodyLimit: service.settings.bodyBytes,
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    trustProxy: options.trustedProxies.length > 0 ? [...options.trustedProxies] : false,
    serverFactory: (handler) => {
      const server = makeServer(handler, service.settings.http, certificate, url)
      servers.push(server)
      return server
    },
    // What is refused before a route is found passes no hook.
    frameworkErrors: (error, request, reply) => {
      welcome(request, reply)
      setRateHeaders(reply, request.visit.rates)
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
    request.visit = { address, rates: [service.limits.failures.state(address)] }
    setCommonHeaders(request, reply, hsts)
  }
  app.addHook('onRequest', (request, reply, done) => {
    welcome(request, reply)
    done()
  })
  // A call without a body means the same as one with an empty object.
  app.addHook('preValidation', (request, _reply, done) => {
    if (request.routeOptions.schema?.body !== undefined && request.body === undefined) request.body = {}
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
    setRateHeaders(reply, request.visit.rates)
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    const route = request.routeOptions.url ?? null
    const { method, id } = request
    log.info({ request_id: id, method, route, status: reply.statusCode, ms: Math.round(reply.elapsedTime) }, 'answered')
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
  return {
    app,
    renew(fresh) {
      for (const server of servers) {
        if ('setSecureContext' in server) server.setSecureContext(tlsOptions(fresh))
      }
    },
  }
}

/** Sees every route that is added from now on; the returned function answers 405 to their other methods. */
function watchMethods(app: App): () => void {
  const methods = new Map<string, Set<string>>()
  app.addHook('onRoute', ({ url, method }) => {
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
