/** `GET /metrics`: Prometheus text, for this machine or for whoever has the metrics token. */
import { constantTimeEqual } from '@static/node/compare'

/** Where the figures come from, and who beside this machine may read them. */
export interface MetricsSource {
  readonly text: () => Promise<string>
  readonly token: string | undefined
}

/** An answer of HTTP. */
export interface MetricsAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Answers a peer of this address; rejects when the figures cannot be had. */
export async function metricsAnswer(
  { text, token }: MetricsSource,
  address: string,
  authorization: string | undefined,
): Promise<MetricsAnswer> {
  const known = token !== undefined && constantTimeEqual(authorization, `Bearer ${token}`)
  if (known || isLoopback(address)) {
    return { status: 200, headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }, body: await text() }
  }
  return {
    status: 401,
    headers: { 'content-type': 'application/json', 'www-authenticate': 'Bearer' },
    body: '{"code":"auth_failed"}',
  }
}

function isLoopback(address: string): boolean {
  return address === '::1' || address.startsWith('127.')
}
