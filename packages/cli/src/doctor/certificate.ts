/** Checks the certificate that the API presents, and whether a wrong clock makes it look invalid. */
import { once } from 'node:events'
import { connect, type TLSSocket } from 'node:tls'
import { groupOf, TLS_GROUPS } from '@static/node/tls-groups'
import type { AccountSettings } from '@static/sdk/account'
import { clockFinding } from './clock.ts'
import { type Finding, fix, ok, skipped } from './finding.ts'
import type { CheckedConnection } from './key-agreement.ts'

const TIMEOUT_MS = 5_000
const SOON_DAYS = 7
const DAY_MS = 86_400_000
/** More than a status line and headers need. */
const MAX_HEAD_BYTES = 16_384
/** OpenSSL errors that a wrong clock can also cause. */
const TIME_FAULTS = ['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID']

export interface CheckedCertificate {
  readonly finding: Finding
  /** Whether a client would continue to use the API; undefined if no server answered. */
  readonly isAccepted: boolean | undefined
  /** The clock, if it helps explain why the certificate is refused. */
  readonly clock: Finding | undefined
  /** Undefined if no server answered. */
  readonly connection: CheckedConnection | undefined
}

/** Connects to the API and examines its certificate. */
export async function checkCertificate({ apiUrl, ca }: AccountSettings): Promise<CheckedCertificate> {
  const { hostname, port } = new URL(apiUrl)
  const host = hostname.replaceAll(/[[\]]/g, '')
  // Accepts any certificate so that it can report what is wrong with it; no secret is sent over this connection.
  const socket = connect({
    host,
    port: Number(port || 443),
    minVersion: 'TLSv1.3',
    ecdhCurve: TLS_GROUPS,
    rejectUnauthorized: false,
    ...(/^[\d.]+$|:/.test(host) ? {} : { servername: host }),
    ...(ca === undefined ? {} : { ca }),
  })
  try {
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(TIMEOUT_MS) })
    const connection = { name: 'API', group: groupOf(socket) }
    return { ...(socket.authorized ? accepted(socket) : await refused(socket, apiUrl)), connection }
  } catch {
    const finding = skipped('certificate', 'not checked: cannot reach the API')
    return { finding, isAccepted: undefined, clock: undefined, connection: undefined }
  } finally {
    socket.destroy()
  }
}

type Verdict = Omit<CheckedCertificate, 'connection'>

function accepted(socket: TLSSocket): Verdict {
  const { end } = validityOf(socket)
  const until = dateOf(end)
  const finding =
    end.getTime() - Date.now() < SOON_DAYS * DAY_MS
      ? fix(
          'certificate',
          `The certificate expires on ${until}. Renew it; \`static up\` renews its own when restarted.`,
        )
      : ok('certificate', `trusted, valid until ${until}`)
  return { finding, isAccepted: true, clock: undefined }
}

async function refused(socket: TLSSocket, apiUrl: string): Promise<Verdict> {
  // A name from OpenSSL, despite its type.
  const why = String(socket.authorizationError)
  if (!TIME_FAULTS.includes(why)) {
    const remedy = 'Pass its CA with --ca; `static up` prints the path.'
    const finding = fix('certificate', `The certificate of ${apiUrl} is not trusted (${why}). ${remedy}`)
    return { finding, isAccepted: false, clock: undefined }
  }
  const { start, end } = validityOf(socket)
  const date = await dateHeader(socket, new URL(apiUrl).host)
  const clock = clockFinding(date)
  const there = Date.parse(date ?? '')
  const fault = why === 'CERT_HAS_EXPIRED' ? `expired on ${dateOf(end)}` : `is not valid before ${dateOf(start)}`
  const remedy =
    clock.ok === false && there >= start.getTime() && there <= end.getTime()
      ? "It is valid by the API's clock: set the clock of this machine."
      : 'Renew it; `static up` renews its own when restarted.'
  return { finding: fix('certificate', `The certificate of ${apiUrl} ${fault}. ${remedy}`), isAccepted: false, clock }
}

/** The Date header of an answer; undefined if there is none. */
async function dateHeader(socket: TLSSocket, host: string): Promise<string | undefined> {
  socket.write(`HEAD /health/ready HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`)
  const deadline = setTimeout(() => socket.destroy(), TIMEOUT_MS)
  let head = ''
  try {
    for await (const chunk of socket) {
      head += String(chunk)
      if (head.length > MAX_HEAD_BYTES || head.includes('\r\n\r\n')) break
    }
  } catch {
    // Anything read until then counts.
  } finally {
    clearTimeout(deadline)
  }
  return /^date: (.*)$/im.exec(head)?.[1]
}

function validityOf(socket: TLSSocket): { readonly start: Date; readonly end: Date } {
  const { valid_from: from, valid_to: to } = socket.getPeerCertificate()
  return { start: new Date(from), end: new Date(to) }
}

function dateOf(time: Date): string {
  return time.toISOString().slice(0, 10)
}
