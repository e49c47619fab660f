/**
 * Decides which HTTP requests `static mcp --http` accepts. Every program and every web page on this machine can reach a
 * port on loopback. A page's own requests carry its Origin; with DNS rebinding, Host carries the page's name. The token
 * keeps out everything else.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { constantTimeEqual } from '@static/node/compare'

/** The address that the server listens on. */
export const LOOPBACK = '127.0.0.1'
/** The only path. */
export const PATH = '/mcp'

/** A request before its body is read. */
export interface Arrival {
  readonly method?: string | undefined
  readonly url?: string | undefined
  readonly headers: IncomingHttpHeaders
}

/** Why a request is refused. */
export interface GateRefusal {
  readonly status: number
  readonly sentence: string
}

/** Why a request is refused; undefined if it is not. */
export function gateRefusal({ method, url, headers }: Arrival, port: number, token: string): GateRefusal | undefined {
  const names = [`${LOOPBACK}:${port}`, `localhost:${port}`]
  if (!names.includes(headers.host ?? '')) {
    return { status: 403, sentence: `The Host header must be ${names.join(' or ')}.` }
  }
  if (headers.origin !== undefined && !names.some((name) => headers.origin === `http://${name}`)) {
    return { status: 403, sentence: 'Web pages cannot use this server: the Origin header is not of this server.' }
  }
  const [, given] = /^Bearer +([\w-]+)$/i.exec(headers.authorization ?? '') ?? []
  if (!constantTimeEqual(given, token)) {
    return { status: 401, sentence: 'The Authorization header must be "Bearer" and the token of this server.' }
  }
  if (url?.split('?', 1)[0] !== PATH) return { status: 404, sentence: `There is nothing here. The path is ${PATH}.` }
  if (!['POST', 'GET', 'DELETE'].includes(method ?? '')) {
    return { status: 405, sentence: 'Method not allowed. Allowed: GET, POST, DELETE' }
  }
  return undefined
}
