/** The types that routes and plumbing share. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { Caller } from '../rules/caller.ts'
import type { RateContext } from '../rules/limits.ts'
import type { VerifiableKey } from '../ports.ts'

/** The web server, with bodies typed by their schemas. */
export type App = FastifyInstance<Server, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>

declare module 'fastify' {
  interface FastifyRequest {
    /** Where the request comes from and the limits it met. */
    rateContext: RateContext
    /** Who asks, on routes that require it. */
    caller: Caller
    /** The key that was presented, on routes that take nothing else. */
    key: VerifiableKey
  }
}
