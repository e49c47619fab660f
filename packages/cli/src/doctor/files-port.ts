/**
 * Checks the port of files, which firewalls often forget: messages work without it. `GET /health` of the relay names it;
 * a request there without a path of a part gets 404 as a problem document, from a relay and from nothing in between.
 */
import { get, type RequestOptions } from 'node:https'
import { TLS_GROUPS } from '@static/node/tls-groups'
import { StaticError } from '@static/protocol'
import { type AccountSettings, parseEndpoint } from '@static/sdk/account'
import { type Finding, fix, ok, skipped } from './finding.ts'
import type { CheckedNode } from './network.ts'

const CHECK = 'files'
const GRPC_PORT = 5000
const TIMEOUT_MS = 5_000
const PROBLEM_TYPE = 'application/problem+json'
const MAX_BYTES = 65_536
const ADVICE =
  'Allow it in firewalls, or let the operator name another address with --files-url. Messages work without it.'

/** Where the relay takes files. */
interface Place {
  readonly host: string
  readonly port: number
}

interface Answer {
  readonly status: number
  readonly type: string
  readonly body: unknown
}

/** The ports of files of all nodes that respond, each once. */
export async function checkFilesPort(
  endpoint: string,
  { ca, relayName }: Pick<AccountSettings, 'ca'> & Partial<Pick<AccountSettings, 'relayName'>>,
  nodes: readonly CheckedNode[],
): Promise<readonly Finding[]> {
  const relay = parseEndpoint(endpoint, { relayName })
  const findings = new Map<string, Finding>()
  for (const [index, { host, port }] of relay.addresses.entries()) {
    const { finding, grpcPort } = nodes[index] ?? {}
    // The check of the relay says why it does not respond.
    if (finding?.ok !== true) continue
    const tls = { servername: relay.serverName, ...(ca === undefined ? {} : { ca }) }
    const found = await check(host, relay.way === 'grpc' ? port : (grpcPort ?? GRPC_PORT), tls)
    findings.set(found.detail, found)
  }
  return [...findings.values()]
}

async function check(host: string, grpcPort: number, tls: RequestOptions): Promise<Finding> {
  const health = await ask({ host, port: grpcPort, path: '/health', ...tls }).catch(() => undefined)
  if (health?.status !== 200) return skipped(CHECK, `not checked: ${host} port ${grpcPort} does not name their port`)
  const place = placeOf(health.body, host)
  if (!place) return skipped(CHECK, 'not checked: the relay takes no files')
  // A balancer in front may have a certificate for its own name.
  const servername = place.host === host ? tls.servername : place.host
  const where = `port ${place.port} (TCP) of ${place.host}`
  try {
    const { status, type } = await ask({ ...place, path: '/v1/files', ...tls, servername })
    if (status === 404 && type.startsWith(PROBLEM_TYPE)) return ok(CHECK, `${where} responds`)
    return fix(CHECK, `Something else than the relay answers at ${where}, where it takes files. ${ADVICE}`)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return fix(CHECK, `Files are blocked: cannot reach ${where} (${code ?? message}). ${ADVICE}`)
  }
}

/** The place that a relay names in its health. */
function placeOf(body: unknown, host: string): Place | undefined {
  const { files_port: port, files_url: url } = (body ?? {}) as { files_port?: unknown; files_url?: unknown }
  if (typeof url === 'string' && URL.canParse(url)) {
    const { hostname, port: given } = new URL(url)
    return { host: hostname.replaceAll(/[[\]]/g, ''), port: Number(given || 443) }
  }
  return typeof port === 'number' && port > 0 && port < 65_536 ? { host, port } : undefined
}

function ask(options: RequestOptions): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const request = get({ ...options, agent: false, minVersion: 'TLSv1.3', ecdhCurve: TLS_GROUPS, signal }, (answer) => {
    const chunks: Buffer[] = []
    let length = 0
    answer.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      length += chunk.length
      if (length > MAX_BYTES) request.destroy(StaticError.of('too_large', 'The answer is too long.'))
    })
    answer.on('error', reject)
    answer.on('end', () => {
      let body: unknown
      try {
        body = JSON.parse(Buffer.concat(chunks).toString())
      } catch {
        body = undefined
      }
      resolve({ status: answer.statusCode ?? 0, type: answer.headers['content-type'] ?? '', body })
    })
  })
  request.on('error', (error) => reject(signal.aborted ? new Error(`no answer within ${TIMEOUT_MS / 1000} s`) : error))
  return promise
}
