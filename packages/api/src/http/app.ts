/** Types that routes and hooks share. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import type { Caller, SessionCaller } from '../rules/caller.ts'
import type { RateContext } from '../rules/rate-policy.ts'
import type { VerifiableKey } from '../ports.ts'

/** The web server, with bodies typed by their schemas. */
export type App = FastifyInstance<Server, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>

declare module 'fastify' {
  interface FastifyRequest {
    /** The address of the client. */
    clientAddress: string
    /** The origin of the request and the limits applied to it. */
    rateContext: RateContext
    /** The authenticated caller, on routes that require one. */
    caller: Caller
    /** The caller, on routes that require a sign-in session. */
    sessionCaller: SessionCaller
    /** The API key of the request, on routes that accept only a key. */
    key: VerifiableKey
  }
}
