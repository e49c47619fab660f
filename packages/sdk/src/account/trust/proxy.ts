/** Connections through the proxy that `HTTPS_PROXY` names. It resolves the name; TLS still verifies the server. */
import { request as plainRequest } from 'node:http'
import { request as tlsRequest } from 'node:https'
import type { Socket } from 'node:net'
import { StaticError } from '@static/protocol'

/** The proxy of a user. */
export interface Proxy {
  /** `http://` or `https://`, with a user and a password where it needs them. */
  readonly url: string
  /** As in `NO_PROXY`: hosts that are reached without it, separated by commas. */
  readonly except: string
}

/** Whether the proxy is for this host. */
export function isProxied({ except }: Proxy, host: string): boolean {
  const hosts = except.toLowerCase().split(',')
  return !hosts.some((each) => {
    const name = each.trim().replace(/^\*?\./, '')
    return each.trim() === '*' || (name !== '' && (host === name || host.endsWith(`.${name}`)))
  })
}

/**
 * A connection to a server through a proxy.
 *
 * @throws {Error} if the proxy is out of reach or refuses
 */
export async function throughProxy({ url }: Proxy, server: string, signal: AbortSignal): Promise<Socket> {
  const { protocol, hostname, port, username, password } = new URL(url)
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const isTls = protocol === 'https:'
  const secret = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString('base64')
  const sent = (isTls ? tlsRequest : plainRequest)({
    method: 'CONNECT',
    hostname: hostname.replaceAll(/[[\]]/g, ''),
    port: port === '' ? (isTls ? 443 : 80) : port,
    path: server,
    headers: { host: server, ...(username === '' ? {} : { 'proxy-authorization': `Basic ${secret}` }) },
    agent: false,
    signal,
  })
  sent.on('connect', ({ statusCode }, socket, head) => {
    if (statusCode === 200 && head.length === 0) return resolve(socket)
    socket.destroy()
    reject(new Error(`the proxy answered with ${statusCode}`))
  })
  sent.on('response', (response) => {
    response.destroy()
    reject(new Error(`the proxy answered with ${response.statusCode}`))
  })
  sent.on('error', reject)
  sent.end()
  return await promise
}

/**
 * The proxy in the environment; undefined if there is none.
 *
 * @throws {StaticError} `invalid_request` if it is not the address of one
 */
export function proxyOf(env: Readonly<Record<string, string | undefined>>): Proxy | undefined {
  const url = env['HTTPS_PROXY'] || env['https_proxy'] || ''
  if (url === '') return undefined
  if (/^https?:\/\//.test(url) && URL.canParse(url)) return { url, except: env['NO_PROXY'] || env['no_proxy'] || '' }
  throw StaticError.of('invalid_request', 'HTTPS_PROXY is not an address that begins with http:// or https://.')
}
