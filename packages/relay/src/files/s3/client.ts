/**
 * Signed requests to an S3 server (AWS Signature Version 4), over HTTPS only: TLS protects the bodies, so their hash is
 * not signed (`UNSIGNED-PAYLOAD`). A request that finds no answer, or a server that fails, is repeated, since all of
 * them may be.
 */
import type { FileHandle } from 'node:fs/promises'
import type { ClientRequest, IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { TLS_GROUPS } from '@static/node/tls-groups'
import { StaticError } from '@static/protocol'
import { AwsV4Signer } from 'aws4fetch'
import type { S3Access } from '../../options.ts'

/** Bodies under way, and what sweeps do meanwhile. */
const MAX_SOCKETS = 80
const READ_BYTES = 262_144
const PAUSES_MS = [200, 1000]
const ANSWER_BYTES = 4_194_304
const ERROR_BYTES = 16_384
const CODE = /<Code>([A-Za-z0-9]{1,64})<\/Code>/

/** A request below the bucket. */
export interface S3Request {
  readonly method: 'GET' | 'PUT' | 'DELETE'
  /** Empty for the bucket itself. */
  readonly name: string
  readonly query?: Readonly<Record<string, string>>
  /** The bytes of a file, from its start. */
  readonly body?: { readonly file: FileHandle; readonly bytes: number }
}

interface Sent {
  readonly outgoing: ClientRequest
  readonly answer: IncomingMessage
}

/** The server has refused a request. */
export class S3Refusal extends Error {
  readonly status: number

  constructor({ method, name }: S3Request, status: number, code: string | undefined) {
    super(`The object store answered ${method} ${name === '' ? 'of the bucket' : name} with ${status} ${code ?? ''}`)
    this.status = status
  }
}

export class S3Client {
  readonly #access: S3Access
  readonly #agent: Agent
  readonly #stallMs: number
  readonly #pausesMs: readonly number[]
  /** Derived keys of the signature, one a day. */
  readonly #keys = new Map<string, ArrayBuffer>()

  constructor(access: S3Access, stallMs: number, pausesMs: readonly number[] = PAUSES_MS) {
    const { ca, endpoint } = access
    if (!endpoint.startsWith('https:')) {
      const reason = 'Over plain HTTP, anyone on the way could read the requests and change the parts.'
      throw StaticError.of('invalid_request', `The object store ${endpoint} is not an HTTPS address. ${reason}`)
    }
    this.#access = access
    this.#stallMs = stallMs
    this.#pausesMs = pausesMs
    this.#agent = new Agent({
      keepAlive: true,
      maxSockets: MAX_SOCKETS,
      // Not every object store has 1.3.
      minVersion: 'TLSv1.2',
      ecdhCurve: TLS_GROUPS,
      ...(ca === undefined ? {} : { ca }),
    })
  }

  /** The answer to a request, whose body must be read; undefined if there is no such object. Throws `S3Refusal`. */
  async open(asked: S3Request): Promise<IncomingMessage | undefined> {
    for (let attempt = 0; ; attempt++) {
      const pause = this.#pausesMs[attempt]
      try {
        const { answer, outgoing } = await this.#send(asked)
        const status = answer.statusCode ?? 0
        if (status >= 200 && status < 300) return answer
        const code = CODE.exec(await textOf(answer, ERROR_BYTES))?.[1]
        // It may have been refused before it was sent.
        if (asked.body) outgoing.destroy()
        if (status === 404 && code !== 'NoSuchBucket' && asked.name !== '') return undefined
        throw new S3Refusal(asked, status, code)
      } catch (error) {
        const isFinal = error instanceof S3Refusal && error.status < 500 && error.status !== 429
        if (pause === undefined || isFinal) throw error
        await delay(pause)
      }
    }
  }

  /** The whole answer to a request; undefined if there is no such object. */
  async text(asked: S3Request): Promise<string | undefined> {
    const answer = await this.open(asked)
    return answer && (await textOf(answer, ANSWER_BYTES))
  }

  async #send({ method, name, query = {}, body }: S3Request): Promise<Sent> {
    const { endpoint, bucket, region, accessKeyId, secretAccessKey, sessionToken } = this.#access
    const place = new URL(`/${bucket}${name === '' ? '' : `/${name}`}`, endpoint)
    for (const [field, value] of Object.entries(query)) place.searchParams.set(field, value)
    const signer = new AwsV4Signer({
      method,
      url: place.href,
      service: 's3',
      region,
      accessKeyId,
      secretAccessKey,
      ...(sessionToken === undefined ? {} : { sessionToken }),
      cache: this.#keys,
    })
    const { url, headers } = await signer.sign()
    if (this.#keys.size > 1) this.#keys.clear()
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const length = method === 'PUT' ? { 'content-length': body?.bytes ?? 0 } : {}
    const outgoing = request(url, {
      method,
      agent: this.#agent,
      headers: { ...Object.fromEntries(headers), ...length },
    })
    outgoing.setTimeout(this.#stallMs, () =>
      outgoing.destroy(new Error(`The object store passed no byte for ${this.#stallMs} ms.`)),
    )
    outgoing.on('response', resolve)
    outgoing.on('error', reject)
    if (body) {
      const bytes = Readable.from(bytesOf(body))
      bytes.on('error', (error) => outgoing.destroy(error))
      outgoing.once('close', () => bytes.destroy())
      bytes.pipe(outgoing)
    } else outgoing.end()
    return { answer: await promise, outgoing }
  }
}

/** The start of a file, which stays open. */
async function* bytesOf({ file, bytes }: NonNullable<S3Request['body']>): AsyncIterable<Uint8Array> {
  for (let at = 0; at < bytes;) {
    const { bytesRead, buffer } = await file.read({ buffer: Buffer.alloc(READ_BYTES), position: at })
    if (bytesRead === 0) throw new Error('The spooled part is shorter than it was.')
    yield buffer.subarray(0, Math.min(bytesRead, bytes - at))
    at += bytesRead
  }
}

/** All of an answer. Throws if there is more than that. */
async function textOf(answer: IncomingMessage, most: number): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of answer) {
    length += (chunk as Buffer).length
    if (length > most) throw new Error(`The object store answered with more than ${most} bytes.`)
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks).toString()
}
