/** A small S3 server in memory, over HTTPS: it checks signatures, lists in short pages, and fails as a test tells it. */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { AwsV4Signer } from 'aws4fetch'
import { certificates } from '@static/testkit/certificates'
import type { S3Access } from '../../src/options.ts'

const KEYS = { accessKeyId: 'AKIDTEST', secretAccessKey: 'of the test' }
const REGION = 'eu-test-1'
const BUCKET = 'bucket'
const PAGE = 2

/** What it does in place of answering; the last for all requests to come. */
type Mood = number | 'silent' | 'reset'

export class FakeS3 {
  readonly objects: Map<string, { readonly bytes: Buffer; readonly changedAt: number }> = new Map()
  /** Requests as they came: method and path. */
  readonly asked: string[] = []
  /** For the next requests, one each. */
  moods: Mood[] = []
  changedAt = 1_000_000_000_000
  readonly #server: Server
  readonly #ca: string

  private constructor(server: Server, ca: string) {
    this.#server = server
    this.#ca = ca
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      void this.#answer(request, response).catch(() => response.destroy())
    })
  }

  static async start(): Promise<FakeS3> {
    const { authority, named } = await certificates()
    const server = createServer({ ...named }).listen(0, 'localhost')
    await once(server, 'listening')
    return new FakeS3(server, authority.cert)
  }

  access(spool: string): S3Access {
    const { port } = this.#server.address() as AddressInfo
    const place = { endpoint: `https://localhost:${port}`, region: REGION, bucket: BUCKET, prefix: 'static/files' }
    return { ...place, ...KEYS, ca: this.#ca, spool }
  }

  async stop(): Promise<void> {
    this.#server.close()
    this.#server.closeAllConnections()
    await once(this.#server, 'close')
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', headers } = request
    const url = new URL(request.url ?? '', `https://${headers.host}`)
    this.asked.push(`${method} ${url.pathname}`)
    const body = Buffer.concat((await request.toArray()) as Buffer[])
    const mood = this.moods.shift()
    if (mood === 'silent') return
    if (mood === 'reset') return void request.socket.resetAndDestroy()
    if (mood !== undefined) return refuse(response, mood, 'SlowDown')
    if (!(await isSigned(url, request))) return refuse(response, 403, 'SignatureDoesNotMatch')
    const [, bucket, ...names] = url.pathname.split('/')
    if (bucket !== BUCKET) return refuse(response, 404, 'NoSuchBucket')
    const name = names.join('/')
    if (method === 'PUT') {
      if (headers['content-length'] !== String(body.length)) return refuse(response, 411, 'MissingContentLength')
      this.objects.set(name, { bytes: body, changedAt: this.changedAt })
      response.end()
    } else if (method === 'DELETE') {
      this.objects.delete(name)
      response.writeHead(204).end()
    } else if (name === '') response.end(this.#list(url.searchParams))
    else {
      const found = this.objects.get(name)
      if (!found) return refuse(response, 404, 'NoSuchKey')
      response.writeHead(200, { 'content-length': found.bytes.length }).end(found.bytes)
    }
  }

  #list(query: URLSearchParams): string {
    const token = query.get('continuation-token')
    const after = token === null ? (query.get('start-after') ?? '') : token.replace(/^from<&> /, '')
    const names = [...this.objects.keys()].filter((name) => name.startsWith(query.get('prefix') ?? '')).sort()
    const left = names.filter((name) => name > after)
    const page = left.slice(0, Math.min(PAGE, Number(query.get('max-keys') ?? PAGE)))
    const contents = page.map((name) => {
      const changed = new Date(this.objects.get(name)?.changedAt ?? 0).toISOString()
      return `<Contents>\n<Key>${name}</Key><LastModified>${changed}</LastModified></Contents>`
    })
    const isCut = page.length < left.length
    const next = isCut ? `<NextContinuationToken>from&lt;&#38;&gt;&#x20;${page.at(-1)}</NextContinuationToken>` : ''
    return `<?xml version="1.0"?><ListBucketResult><IsTruncated>${isCut}</IsTruncated>${next}${contents.join('')}</ListBucketResult>`
  }
}

/** Signs the same request once more: the result must be equal. */
async function isSigned(url: URL, { method = '', headers }: IncomingMessage): Promise<boolean> {
  const datetime = String(headers['x-amz-date'])
  const signer = new AwsV4Signer({ method, url: url.href, service: 's3', region: REGION, ...KEYS, datetime })
  const { headers: right } = await signer.sign()
  return headers.authorization === right.get('authorization') && headers['x-amz-content-sha256'] === 'UNSIGNED-PAYLOAD'
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status).end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>no</Message></Error>`)
}
