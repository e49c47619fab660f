/** Authenticates the caller: an API key in the header, or a sign-in session in the cookie. */
import type { FastifyReply, FastifyRequest, preValidationAsyncHookHandler } from 'fastify'
import { CSRF_HEADER, DEVICE_COOKIE, SESSION_COOKIE, StaticError } from '@static/protocol'
import type { Caller, SessionCaller } from '../rules/caller.ts'
import { DEVICE_SECONDS } from '../rules/devices.ts'
import type { RateContext } from '../rules/rate-policy.ts'
import type { VerifiableKey } from '../ports.ts'
import type { Service } from '../service.ts'

const BEARER = /^Bearer +([^\s]+) *$/i
const SAFE_METHODS = new Set(['GET', 'HEAD'])

/**
 * Requires a valid API key. Checked after the body has arrived, so that a request held open does not outlive the
 * revocation of its key, and before the body is validated.
 */
export function requireKey(service: Service): preValidationAsyncHookHandler {
  return async (request) => {
    fillBody(request)
    request.key = await byKey(service, request)
  }
}

/** Requires a valid API key or session; checked at the same point as in `requireKey`. */
export function requireCaller(service: Service, origin: () => string): preValidationAsyncHookHandler {
  return async (request, reply) => {
    fillBody(request)
    // The key or, without an Authorization header, the session; counted against the account's rate.
    const session = request.headers.authorization === undefined ? sessionOf(request) : undefined
    const caller =
      session === undefined
        ? callerOf(await byKey(service, request))
        : await bySession(service, request, reply, session, origin())
    service.limits.account.spend(caller.accountId, request.rateContext)
    request.caller = caller
  }
}

/**
 * Requires a sign-in session, for data and actions that must not be available to API keys, which many programs have.
 */
export function requireSession(service: Service, origin: () => string): preValidationAsyncHookHandler {
  return async (request, reply) => {
    fillBody(request)
    const session = sessionOf(request)
    if (session === undefined) {
      throw StaticError.of('auth_failed', 'A sign-in session is required; an API key is not enough. Sign in first.')
    }
    const caller = await bySession(service, request, reply, session, origin())
    service.limits.account.spend(caller.accountId, request.rateContext)
    request.sessionCaller = caller
  }
}

/** Treats a missing body as an empty object. */
export function fillBody(request: FastifyRequest): void {
  if (request.body === undefined) request.body = {}
}

/** Whether the request has a credential, valid or not: a key or a session. */
export function hasCredential(request: FastifyRequest): boolean {
  return request.headers.authorization !== undefined || sessionOf(request) !== undefined
}

/** Verifies the key in the header and records its use. Throws `auth_failed` if there is none. */
async function byKey(service: Service, request: FastifyRequest): Promise<VerifiableKey> {
  const header = request.headers.authorization
  if (header === undefined) throw StaticError.of('auth_failed', 'An API key is required in the Authorization header.')
  const key = BEARER.exec(header)?.[1]
  if (key === undefined) throw StaticError.of('auth_failed', 'The Authorization header must be "Bearer <API key>".')
  const row = await service.verifier.verify(key, request.rateContext)
  const writing = service.keyUsage.recordUse(row)
  if (writing) await writing
  return row
}

function callerOf({ id, accountId, plan, mode }: VerifiableKey): Caller {
  return { accountId, plan, mode, credential: { by: 'key', id } }
}

async function bySession(
  service: Service,
  request: FastifyRequest,
  reply: FastifyReply,
  session: string,
  origin: string,
): Promise<SessionCaller> {
  checkOwnPage(request, origin)
  const { caller, renewed } = await service.sessions.resume(session)
  if (renewed) setSessionCookie(reply, session, service.settings.sessionSeconds)
  return caller
}

/** Refuses cross-site request forgery: a request that another site made the browser send with this API's cookie. */
export function checkOwnPage(request: FastifyRequest, origin: string): void {
  if (request.headers[CSRF_HEADER] === undefined) {
    throw StaticError.of('auth_failed', `A request with the session cookie requires the header ${CSRF_HEADER}.`)
  }
  // Browsers omit Origin only for same-origin reads.
  const from = request.headers.origin
  if (from === undefined ? !SAFE_METHODS.has(request.method) : from !== origin) {
    throw StaticError.of('auth_failed', `A request with the session cookie must come from ${origin}.`)
  }
}

/** The session id in the cookie, if any. */
export function sessionOf(request: FastifyRequest): string | undefined {
  return cookieOf(request, SESSION_COOKIE)
}

/** The context of a request that contains a password. Only pages of this origin have a device. */
export function passwordContext(request: FastifyRequest, origin: string): RateContext {
  const { rateContext } = request
  if (request.headers.origin !== origin) return rateContext
  return { ...rateContext, browser: { device: cookieOf(request, DEVICE_COOKIE) } }
}

/** Sets the session cookie; an empty session deletes it. */
export function setSessionCookie(reply: FastifyReply, session: string, seconds: number): void {
  setCookie(reply, SESSION_COOKIE, session, session === '' ? 0 : seconds)
}

/** Sets the device cookie, if there is a device. */
export function setDeviceCookie(reply: FastifyReply, device: string | undefined): void {
  if (device !== undefined) setCookie(reply, DEVICE_COOKIE, device, DEVICE_SECONDS)
}

function cookieOf(request: FastifyRequest, name: string): string | undefined {
  for (const pair of request.headers.cookie?.split(';') ?? []) {
    const at = pair.indexOf('=')
    if (pair.slice(0, at).trim() === name) return pair.slice(at + 1).trim()
  }
  return undefined
}

function setCookie(reply: FastifyReply, name: string, value: string, seconds: number): void {
  reply.header('set-cookie', `${name}=${value}; Max-Age=${seconds}; Path=/; Secure; HttpOnly; SameSite=Strict`)
}
