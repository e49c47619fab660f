/**
 * Checks the certificate of the relay: its name, its issuer, and its expiry. The TCP port presents the QUIC port's
 * certificate to clients that send the server's name.
 */
import { once } from 'node:events'
import { connect, type TLSSocket } from 'node:tls'
import { groupOf, TLS_GROUPS } from '@static/node/tls-groups'
import { type AccountSettings, parseEndpoint } from '@static/sdk/account'
import { type Finding, fix, ok, skipped } from './finding.ts'
import { type CheckedConnection, QUIC_CONNECTION } from './key-agreement.ts'
import type { CheckedNode } from './network.ts'

const CHECK = 'relay certificate'
const GRPC_PORT = 5000
const PORT_UNTOLD = 'announces its gRPC port only to agents that it admits. Set STATIC_GRPC_PORT to check it.'
const TIMEOUT_MS = 5_000
const SOON_DAYS = 7
const DAY_MS = 86_400_000

/** The results for the certificates of a relay, and the connections on which they came. */
export interface CheckedRelay {
  readonly findings: readonly Finding[]
  readonly connections: readonly CheckedConnection[]
}

/**
 * The certificates of all nodes. Skips a node that does not answer over TCP, because the check of the relay reports
 * why. The port is the one that an agent would use: for a QUIC address, STATIC_GRPC_PORT, then the port that the node
 * announced, then 5000. A node that responds without announcing a port, for example because it does not admit guests,
 * may use another one.
 */
export async function checkRelayCertificate(
  endpoint: string,
  { ca, relayName }: Pick<AccountSettings, 'ca'> & Partial<Pick<AccountSettings, 'relayName'>>,
  nodes: readonly CheckedNode[],
  now: number = Date.now(),
): Promise<CheckedRelay> {
  const relay = parseEndpoint(endpoint, { relayName })
  const given = Number(process.env['STATIC_GRPC_PORT'] || Number.NaN)
  const findings: Finding[] = []
  const connections: CheckedConnection[] = []
  for (const [index, { host, port }] of relay.addresses.entries()) {
    const { finding, grpcPort } = nodes[index] ?? {}
    const known = relay.way === 'grpc' ? port : Number.isNaN(given) ? grpcPort : given
    if (known === undefined && finding?.ok === true)
      findings.push(skipped(CHECK, `not checked: ${host} ${PORT_UNTOLD}`))
    else {
      const checked = await check(host, known ?? GRPC_PORT, relay.serverName, { ca, now })
      findings.push(...checked.findings)
      connections.push(...checked.connections)
    }
    if (relay.way === 'quic' && finding?.ok === true) connections.push(QUIC_CONNECTION)
  }
  return { findings, connections }
}

async function check(
  host: string,
  port: number,
  serverName: string,
  { ca, now }: { readonly ca: string | undefined; readonly now: number },
): Promise<CheckedRelay> {
  let socket: TLSSocket | undefined
  try {
    // Accepts any certificate so that it can report what is wrong with it; nothing is sent over this connection.
    socket = connect({
      host,
      port,
      servername: serverName,
      minVersion: 'TLSv1.3',
      ecdhCurve: TLS_GROUPS,
      rejectUnauthorized: false,
      ...(ca === undefined ? {} : { ca }),
    })
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(TIMEOUT_MS) })
    const findings = [findingOf(socket, `${host} port ${port}`, serverName, now)]
    return { findings, connections: [{ name: 'relay over gRPC', group: groupOf(socket) }] }
  } catch {
    return { findings: [], connections: [] }
  } finally {
    socket?.destroy()
  }
}

function findingOf(socket: TLSSocket, place: string, name: string, now: number): Finding {
  const { valid_to: validTo, subjectaltname: names = 'no name' } = socket.getPeerCertificate()
  const end = new Date(validTo)
  const until = end.toISOString().slice(0, 10)
  // Checked before TLS's result, which reports only the first fault it found.
  if (end.getTime() <= now) {
    return fix(CHECK, `The certificate of the relay at ${place} expired on ${until}. Renew it on the relay.`)
  }
  if (!socket.authorized) {
    const why = String(socket.authorizationError)
    if (why.includes('ERR_TLS_CERT_ALTNAME_INVALID')) {
      const remedy = 'Use one of its names in the relay URL; for an address, set STATIC_RELAY_NAME.'
      return fix(CHECK, `The certificate of the relay at ${place} is for ${names}, not for ${name}. ${remedy}`)
    }
    const remedy = 'Pass its CA with --ca; `static up` prints the path.'
    return fix(CHECK, `The certificate of the relay at ${place} is not trusted (${why}). ${remedy}`)
  }
  if (end.getTime() - now < SOON_DAYS * DAY_MS) {
    const remedy = 'Renew it on the relay; `static up` renews its own when restarted.'
    return fix(CHECK, `The certificate of the relay at ${place} expires on ${until}. ${remedy}`)
  }
  return ok(CHECK, `for ${name}, trusted, valid until ${until}`)
}
