/**
 * Checks that the API and the relay respond and accept the account, and that their ports are free or in use by them.
 */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Account, AuthError, StaticError } from '@static/protocol'
import { type AccountSettings, apiRefusal, callApi, isLocal, isLoopback, parseEndpoint } from '@static/sdk/account'
import { requestApi } from '../account/api-request.ts'
import { clockFinding } from './clock.ts'
import { type Finding, fix, ok, skipped } from './finding.ts'

const TIMEOUT_MS = 5_000
const START_HERE = 'Run `static up`.'
const START_OR_NAME = 'Run `static up`, or pass the URL of another server with --api-url.'
const LOOK_THERE = 'Check the address and the network.'

/** Checks that the API is ready, and compares its clock with ours. */
export async function checkApi({ apiUrl, ca }: AccountSettings): Promise<Finding[]> {
  const url = new URL(`${apiUrl}/health/ready`)
  try {
    const answer = await callApi({ url, method: 'GET', ca, timeoutMs: TIMEOUT_MS })
    const ready = answer.status === 200 ? ok('API', `${apiUrl} is ready`) : fix('API', apiRefusal(url, answer).message)
    return [ready, clockFinding(answer.headers.date)]
  } catch (error) {
    const clock = skipped('clock', 'not checked: cannot reach the API')
    return [fix('API', `${StaticError.from(error).message} ${startHint(apiUrl)}`), clock]
  }
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
    const { code, message } = StaticError.from(error)
    if (code === 'account_suspended') return fix('API key', message)
    if (error instanceof AuthError) return fix('API key', `${message} Run \`static login\`.`)
    return skipped('API key', `not checked: ${message}`)
  }
}

/** The results for one node of the relay. */
export interface CheckedNode {
  readonly finding: Finding
  /** The gRPC port that it announced, if it responded. */
  readonly grpcPort: number | undefined
}

/** Checks that each node of the relay responds, by connecting a temporary agent as a guest. */
export async function checkRelay(endpoint: string, account: AccountSettings): Promise<CheckedNode[]> {
  const nodes: CheckedNode[] = []
  for (const address of endpoint.split(',')) nodes.push(await checkNode(address.trim(), account))
  return nodes
}

async function checkNode(endpoint: string, account: AccountSettings): Promise<CheckedNode> {
  const directory = await mkdtemp(join(tmpdir(), 'static-doctor-'))
  try {
    const dataDir = join(directory, 'agent')
    const finding = await reachNode(endpoint, account, dataDir)
    const { readAgentIdentity } = await import('@static/sdk')
    const guest = await readAgentIdentity(dataDir).catch(() => undefined)
    return { finding, grpcPort: guest?.relays[0]?.grpcPort }
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

async function reachNode(endpoint: string, { givenCa, relayName }: AccountSettings, dataDir: string): Promise<Finding> {
  const { StaticClient } = await import('@static/sdk')
  const reach = async (options: { readonly fallback: boolean }): Promise<void> => {
    const client = await StaticClient.connect({
      endpoint,
      apiKey: null,
      identity: 'doctor',
      dataDir,
      connectTimeoutMs: TIMEOUT_MS,
      ...(givenCa === undefined ? {} : { ca: givenCa }),
      ...(relayName === undefined ? {} : { relayName }),
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
    const { code, message } = StaticError.from(error)
    // A setting of this machine is wrong.
    if (code === 'invalid_request') return fix('relay', message)
    const other = await reach({ fallback: true }).then(
      () => true,
      () => false,
    )
    const remedy = isLocal(parseEndpoint(endpoint, { relayName })) ? START_HERE : LOOK_THERE
    return fix('relay', `${message} ${other ? 'Agents fall back to gRPC, which is slower.' : remedy}`)
  }
}

/** Checks whether the ports of a local server are free or in use by Static. */
export async function checkPorts(
  { relay: endpoint, relayName, apiUrl }: AccountSettings,
  reachable: boolean,
): Promise<Finding> {
  const relay = endpoint === undefined ? undefined : parseEndpoint(endpoint, { relayName })
  const { hostname, port } = new URL(apiUrl)
  const api = Number(port || 443)
  if (!isLoopback(hostname.replaceAll(/[[\]]/g, '')))
    return skipped('ports', `not checked: ${apiUrl} is not on this machine`)
  if (reachable) return ok('ports', `Static listens on ${api}/tcp`)
  const way = relay?.way === 'quic' ? 'udp' : 'tcp'
  const here = (relay?.addresses ?? []).filter(({ host }) => isLoopback(host)).map(({ port: number }) => number)
  const ports = [['tcp', api] as const, ...here.map((number) => [way, number] as const)]
  const named = (list: typeof ports): string => list.map(([kind, number]) => `${number}/${kind}`).join(' and ')
  const taken: typeof ports = []
  for (const one of ports) if (!(await isFree(...one))) taken.push(one)
  if (taken.length === 0) return ok('ports', `${named(ports)} ${ports.length === 1 ? 'is' : 'are'} free`)
  return fix(
    'ports',
    `Another program is using ${named(taken)}. Stop it, or choose other ports (see \`static up --help\`).`,
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

function startHint(apiUrl: string): string {
  const { hostname } = new URL(apiUrl)
  return isLoopback(hostname.replaceAll(/[[\]]/g, '')) ? START_OR_NAME : LOOK_THERE
}
