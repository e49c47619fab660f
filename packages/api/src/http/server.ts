/** The web server around the routes. */
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { LogController, type FastifyBaseLogger } from 'fastify'
import { Balancers } from '@static/node/balancers'
import type { Logger } from '@static/node/logger'
import { RepeatLog } from '@static/node/repeat-log'
import { StaticError } from '@static/protocol'
import { newId } from '../rules/id.ts'
import type { Service } from '../service.ts'
import { addAnswerHooks, addRateHeaders, beginAnswer } from './answer-hooks.ts'
import type { App } from './app.ts'
import { commonHeaders, isLoopbackName, rateHeaders } from './headers.ts'
import { useStrictJson } from './json.ts'
import { makeServer } from './listener.ts'
import { type Certificates, Listeners } from './listeners.ts'
import { watchMethods } from './methods.ts'
import { useOpenApi } from './openapi.ts'
import { type ErrorHandler, makeErrorHandler } from './problem.ts'
import { problemSchema } from './schemas.ts'

export interface ServerOptions {
  readonly service: Service
  readonly log: FastifyBaseLogger & Pick<Logger, 'isLevelEnabled'>
  readonly certificates: Certificates | undefined
  /** The public host name. */
  readonly name: string
  /** The public address; known once the server listens. */
  readonly url: () => string
  /** Proxies whose `X-Forwarded-For` header is trusted for the client's address. */
  readonly trustedProxies: readonly string[]
  /** The load balancers in front of the server. */
  readonly balancers?: Balancers
  /** Adds the client's address and account to the log line of a request. */
  readonly logClients: boolean
  /** Uses the request id that the caller sends: only if all callers are relay nodes. */
  readonly takesRequestIds?: boolean
}

/** A request id created by a relay. */
const REQUEST_ID = /^[\w-]{8,64}$/

/** A web server with its routes. */
export interface WebServer {
  readonly app: App
  /** Listens; `localhost` means both loopback addresses. Resolves to the port. */
  listen(host: string, port: number): Promise<number>
  renew(certificates: Certificates): void
  /** Closes every connection, for a shutdown that takes too long. */
  destroyConnections(): void
}

/** Creates a web server; `addRoutes` is called once the hooks are in place. */
export async function makeWebServer(options: ServerOptions, addRoutes: (app: App) => void): Promise<WebServer> {
  const { service, certificates, url, balancers = new Balancers(), log, logClients } = options
  const common = commonHeaders(!isLoopbackName(options.name))
  const listeners = new Listeners(certificates, (handler, tls) =>
    makeServer(handler, service.settings.http, tls, balancers, url, (address) => ({
      ...common,
      ...rateHeaders([service.limits.failures.state(address)]),
    })),
  )
  const fail = makeErrorHandler(url, new RepeatLog(() => performance.now()), service.damage)
  const app = makeApp({ ...options, balancers }, listeners, common, fail)
  app.decorateRequest('clientAddress')
  app.decorateRequest('rateContext')
  app.decorateRequest('caller')
  app.decorateRequest('sessionCaller')
  app.decorateRequest('key')
  app.addSchema(problemSchema)
  useStrictJson(app)
  addAnswerHooks(app, { limits: service.limits, common, balancers, log, logClients })
  app.setErrorHandler(fail)
  app.setNotFoundHandler((request, reply) =>
    fail(StaticError.of('not_found', 'No resource exists at this path.'), request, reply),
  )
  await useOpenApi(app, url)
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

/** Fastify, without hooks or routes. */
function makeApp(
  {
    service,
    log,
    trustedProxies,
    balancers,
    takesRequestIds = false,
  }: ServerOptions & { readonly balancers: Balancers },
  listeners: Listeners,
  common: Readonly<Record<string, string>>,
  fail: ErrorHandler,
): App {
  // The hooks write the log lines and add the request id, so requests need no child logger.
  const loggerInstance: FastifyBaseLogger = Object.create(log, { child: { value: () => loggerInstance } })
  return Fastify({
    loggerInstance,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: ({ headers }) => {
      const id = headers['x-request-id']
      return takesRequestIds && typeof id === 'string' && REQUEST_ID.test(id) ? id : newId(service.now())
    },
    requestIdHeader: false,
    bodyLimit: service.settings.bodyBytes,
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    trustProxy: trustedProxies.length > 0 ? [...trustedProxies] : false,
    routerOptions: { maxParamLength: service.settings.bodyBytes },
    serverFactory: (handler) => listeners.first(handler),
    // Requests refused before routing do not run hooks.
    frameworkErrors: (error, request, reply) => {
      if (!beginAnswer(request, reply, common, balancers)) return
      addRateHeaders(request, reply, service.limits)
      fail(error, request, reply)
    },
  }).withTypeProvider<TypeBoxTypeProvider>()
}
