/** Checks that the API and the relay respond, that their certificates are trusted and that the clocks agree. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { type Account, AuthError, StaticError } from '@static/protocol'
import { type AccountSettings, apiRefusal, callApi, isLoopback, parseEndpoint } from '@static/sdk/account'
import { requestApi } from '../account/api-request.ts'
import { type Finding, fix, ok } from './finding.ts'

const MS = 1000
const TIMEOUT_MS = 5_000
/** The API and the relay refuse a token that appears to be from the future. */
const MOST_SECONDS_OFF = 30
const SOON_DAYS = 7
const DAY_MS = 86_400_000

/** Checks that the API is ready, and compares its clock with ours. */
export async function checkApi({ apiUrl, ca }: AccountSettings): Promise<Finding[]> {
  const url = new URL(`${apiUrl}/health/ready`)
  try {
    const answer = await callApi({ url, method: 'GET', ca, timeoutMs: TIMEOUT_MS })
    const ready = answer.status === 200 ? ok('API', `${apiUrl} is ready`) : fix('API', apiRefusal(url, answer).message)
    return [ready, clock(answer.headers.date)]
  } catch (error) {
    return [fix('API', `${StaticError.from(error).message} ${startHint(apiUrl)}`), notChecked('clock')]
  }
}

/** Checks the certificate that the API presents. */
export async function checkCertificate({ apiUrl, ca }: AccountSettings): Promise<Finding> {
  const { hostname, port } = new URL(apiUrl)
  const host = hostname.replaceAll(/[[\]]/g, '')
  // Accepts any certificate so that it can report what is wrong with it; nothing is sent over this connection.
  const socket = connect({
    host,
    port: Number(port || 443),
    minVersion: 'TLSv1.3',
    rejectUnauthorized: false,
    ...(/^[\d.]+$|:/.test(host) ? {} : { servername: host }),
    ...(ca === undefined ? {} : { ca }),
  })
  try {
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(TIMEOUT_MS) })
    return findingOf(socket, apiUrl)
  } catch {
    return notChecked('certificate')
  } finally {
    socket.destroy()
  }
}

function findingOf(socket: TLSSocket, apiUrl: string): Finding {
  if (!socket.authorized) {
    const why = String(socket.authorizationError)
    return fix(
      'certificate',
      `The certificate of ${apiUrl} is not trusted (${why}). Pass its CA with --ca; \`static up\` prints the path.`,
    )
  }
  const end = new Date(socket.getPeerCertificate().valid_to)
  const days = Math.floor((end.getTime() - Date.now()) / DAY_MS)
  const until = end.toISOString().slice(0, 10)
  if (days < SOON_DAYS)
    return fix(
      'certificate',
      `The certificate expires on ${until}. Renew it; \`static up\` renews its own when restarted.`,
    )
  return ok('certificate', `trusted, valid until ${until}`)
}

/** Checks that the API accepts the API key. */
export async function checkKey(account: AccountSettings): Promise<Finding> {
  const { apiKey } = account
  if (apiKey === undefined) return fix('API key', 'You are not signed in. Run `static signup` or `static login`.')
  try {
    const request = { method: 'GET', path: '/v1/accounts/me', apiKey, doing: 'Checking the key' } as const
    const { body } = await requestApi<Account>(account, request)
    return ok('API key', `${apiKey.slice(0, 16)}… of ${body.email}`)
  } catch (error) {
    if (error instanceof AuthError) return fix('API key', `${error.message} Run \`static login\`.`)
    return notChecked('API key')
  }
}

/** Checks that the relay responds, by connecting a temporary agent as a guest. */
export async function checkRelay(endpoint: string, { apiUrl, givenCa }: AccountSettings): Promise<Finding> {
  const { StaticClient } = await import('@static/sdk')
  const directory = await mkdtemp(join(tmpdir(), 'static-doctor-'))
  const reach = async (options: { readonly fallback: boolean }): Promise<void> => {
    const client = await StaticClient.connect({
      endpoint,
      apiKey: null,
      identity: 'doctor',
      dataDir: join(directory, 'agent'),
      connectTimeoutMs: TIMEOUT_MS,
      ...(givenCa === undefined ? {} : { ca: givenCa }),
      ...options,
    })
    await client.close()
  }
  try {
    await reach({ fallback: false })
    return ok('relay', `${endpoint} responds`)
  } catch (error) {
    // The relay responds, but does not admit guests.
    if (error instanceof AuthError) return ok('relay', `${endpoint} responds`)
    const { message } = StaticError.from(error)
    const other = await reach({ fallback: true }).then(
      () => true,
      () => false,
    )
    return fix(
      'relay',
      other ? `${message} Agents fall back to gRPC, which is slower.` : `${message} ${startHint(apiUrl)}`,
    )
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Checks whether the ports of a local server are free or in use by Static. */
export async function checkPorts(endpoint: string, apiUrl: string, reachable: boolean): Promise<Finding> {
  const relay = parseEndpoint(endpoint, { relayName: process.env['STATIC_RELAY_NAME'] })
  const { hostname, port } = new URL(apiUrl)
  const api = Number(port || 443)
  if (!isLoopback(hostname.replaceAll(/[[\]]/g, ''))) return ok('ports', `${apiUrl} is not on this machine`)
  const relayPort = `${relay.port}/${relay.way === 'quic' ? 'udp' : 'tcp'}`
  if (reachable) return ok('ports', `Static listens on ${api}/tcp`)
  const taken = [
    ...((await isFree('tcp', api)) ? [] : [`${api}/tcp`]),
    ...((await isFree(relay.way === 'quic' ? 'udp' : 'tcp', relay.port)) ? [] : [relayPort]),
  ]
  if (taken.length === 0) return ok('ports', `${api}/tcp and ${relayPort} are free`)
  return fix(
    'ports',
    `Another program is using ${taken.join(' and ')}. Stop it, or choose other ports (see \`static up --help\`).`,
  )
}

async function isFree(kind: 'tcp' | 'udp', port: number): Promise<boolean> {
  try {
    if (kind === 'udp') {
      const socket = createSocket('udp4').bind(port, '127.0.0.1')
      await once(socket, 'listening')
      socket.close()
    } else {
      const server = createServer().listen(port, '127.0.0.1')
      await once(server, 'listening')
      server.close()
    }
    return true
  } catch {
    return false
  }
}

function clock(date: string | undefined): Finding {
  const there = Date.parse(date ?? '')
  if (Number.isNaN(there)) return notChecked('clock')
  // The Date header has a resolution of one second.
  const off = Math.round((Date.now() - there) / MS)
  if (Math.abs(off) <= MOST_SECONDS_OFF) return ok('clock', 'in sync with the API')
  const how = off > 0 ? 'ahead of' : 'behind'
  return fix(
    'clock',
    `The clock of this machine is ${Math.abs(off)} s ${how} the API. Set it, for example with \`timedatectl set-ntp true\`.`,
  )
}

function startHint(apiUrl: string): string {
  const { hostname } = new URL(apiUrl)
  return isLoopback(hostname.replaceAll(/[[\]]/g, '')) ? 'Run `static up`.' : 'Check the address and the network.'
}

function notChecked(check: string): Finding {
  return ok(check, 'not checked: cannot reach the API')
}
