/** Plain HTTP requests to the gRPC port, in both versions. */
import { once } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import { request as requestHttp1 } from 'node:https'
import { connect } from 'node:http2'
import { text } from 'node:stream/consumers'
import type { GrpcBench } from './grpc-fakes.ts'

/** An answer. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** Asks over HTTP/1.1 or HTTP/2. */
export async function ask(
  bench: Pick<GrpcBench, 'ca'> & { readonly transport: { readonly port: number } },
  version: '1.1' | '2',
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body = '',
): Promise<HttpAnswer> {
  const { ca } = bench
  const { port } = bench.transport
  if (version === '1.1') {
    const request = requestHttp1({ host: '127.0.0.1', servername: 'localhost', port, ca, method, path, headers })
    request.end(body)
    const [response] = await once(request, 'response')
    return { status: response.statusCode, headers: response.headers, body: await text(response) }
  }
  const session = connect(`https://localhost:${port}`, { ca })
  const request = session.request({ ':method': method, ':path': path, ...headers }, { endStream: body === '' })
  if (body !== '') request.end(body)
  const [answer] = (await once(request, 'response')) as [IncomingHttpHeaders]
  const content = await text(request)
  session.close()
  return { status: Number(answer[':status']), headers: answer, body: content }
}
