/** `GET /metrics`: Prometheus text, for this machine or for a caller with the metrics token. */
import { constantTimeEqual } from '@static/node/compare'

/** The source of the metrics, and the token for other machines. */
export interface MetricsSource {
  readonly text: () => Promise<string>
  readonly token: string | undefined
}

/** An HTTP response. */
export interface MetricsAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The response for a peer, which may be a program on this machine. Rejects if the metrics cannot be read. */
export async function metricsAnswer(
  { text, token }: MetricsSource,
  isLocal: boolean,
  authorization: string | undefined,
): Promise<MetricsAnswer> {
  const known = token !== undefined && constantTimeEqual(authorization, `Bearer ${token}`)
  if (known || isLocal) {
    return { status: 200, headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }, body: await text() }
  }
  return {
    status: 401,
    headers: { 'content-type': 'application/json', 'www-authenticate': 'Bearer' },
    body: '{"code":"auth_failed"}',
  }
}
