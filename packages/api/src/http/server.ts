/** The web server: plumbing around the routes. */
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { LogController, type FastifyBaseLogger } from 'fastify'
import type { Logger } from '@static/node/logger'
import { StaticError } from '@static/protocol'
import { newId } from '../rules/id.ts'
import type { Service } from '../service.ts'
import { addAnswerHooks, addRateHeaders, beginAnswer } from './answer-hooks.ts'
import type { App } from './app.ts'
import { commonHeaders, isLoopbackName, rateHeaders } from './headers.ts'
import { useStrictJson } from './json.ts'
import { type Certificate, makeServer } from './listener.ts'
import { Listeners } from './listeners.ts'
import { watchMethods } from './methods.ts'
import { useOpenApi } from './openapi.ts'
import { type ErrorHandler, makeErrorHandler } from './problem.ts'
import { problemSchema } from './schemas.ts'

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
  /** Ends every connection, for a shutdown that took too long. */
  destroyConnections(): void
}

/** Makes a web server; `addRoutes` is called once the plumbing is in place. */
export async function makeWebServer(options: ServerOptions, addRoutes: (app: App) => void): Promise<WebServer> {
  const { service, certificate, url } = options
  const common = commonHeaders(!isLoopbackName(options.name))
  const listeners = new Listeners((handler) =>
    makeServer(handler, service.settings.http, certificate, url, (address) => ({
      ...common,
      ...rateHeaders([service.limits.failures.state(address)]),
    })),
  )
  const fail = makeErrorHandler(url)
  const app = makeApp(options, listeners, common, fail)
  app.decorateRequest('rateContext')
  app.decorateRequest('caller')
  app.decorateRequest('key')
  app.addSchema(problemSchema)
  useStrictJson(app)
  addAnswerHooks(app, service.limits, common, options.log)
  app.setErrorHandler(fail)
  app.setNotFoundHandler((request, reply) =>
    fail(StaticError.of('not_found', 'There is nothing at this path.'), request, reply),
  )
  await useOpenApi(app)
  const refuseOthers = watchMethods(app)
  addRoutes(app)
  refuseOthers()
  app.addHook('onClose', () => listeners.closeSecond())
  return {
    app,
    listen: (host, port) => listeners.listen(app, host, port),
    renew: (fresh) => listeners.renew(fresh),
    destroyConnections: () => listeners.destroyConnections(),
  }
}

/** The framework, without hooks or routes. */
function makeApp(
  { service, log, trustedProxies }: ServerOptions,
  listeners: Listeners,
  common: Readonly<Record<string, string>>,
  fail: ErrorHandler,
): App {
  // Lines are written by the hooks, which name the request themselves: none needs a logger of its own.
  const loggerInstance: FastifyBaseLogger = Object.create(log, { child: { value: () => loggerInstance } })
  return Fastify({
    loggerInstance,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => newId(service.now()),
    requestIdHeader: false,
    bodyLimit: service.settings.bodyBytes,
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    routerOptions: { maxParamLength: service.settings.bodyBytes },
    serverFactory: (handler) => listeners.first(handler),
    // What is refused before a route is found passes no hook.
    frameworkErrors: (error, request, reply) => {
      beginAnswer(request, reply, common)
      addRateHeaders(request, reply, service.limits)
      fail(error, request, reply)
    },
  }).withTypeProvider<TypeBoxTypeProvider>()
}
