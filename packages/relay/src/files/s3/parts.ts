/**
 * Parts in a bucket of an S3 server, one object each: `PREFIX/KEY/PART`. An object appears whole or not at all, and a
 * part is at most 1 MiB, so neither multipart uploads nor ranges are needed. A body is spooled to the relay's disk
 * first: it may come slowly, and only a whole one is worth a request.
 */
import { randomBytes } from 'node:crypto'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { StaticError } from '@static/protocol'
import type { S3Access } from '../../options.ts'
import type { ListedParts, Parts } from '../../ports.ts'
import { fullOr, isDiskNearlyFull, writeBody } from '../disk.ts'
import { S3Client, S3Refusal } from './client.ts'
import { type ListedPage, readPage } from './listing.ts'

const KEY = /^[0-9a-f]{32}$/
/** An object store that passes no byte for so long is given up. */
const STALL_MS = 60_000
/** At the start, nobody waits longer: the server may be there later. */
const CHECK_MS = 5000
/** Requests at a time, to delete the parts of a file. */
const DELETIONS = 8

export class S3Parts implements Parts {
  readonly #client: S3Client
  readonly #access: S3Access
  readonly #prefix: string
  readonly #spool: string

  constructor(access: S3Access, stallMs: number = STALL_MS, pausesMs?: readonly number[]) {
    this.#client = new S3Client(access, stallMs, pausesMs)
    this.#access = access
    this.#prefix = access.prefix === '' ? '' : `${access.prefix}/`
    this.#spool = access.spool
  }

  /** Throws `invalid_request` if the bucket is not there or refuses the keys; anything else may recover. */
  async check(): Promise<void> {
    const once = new S3Client(this.#access, CHECK_MS, [])
    try {
      await once.text({ method: 'GET', name: '', query: { 'list-type': '2', 'max-keys': '1' } })
    } catch (error) {
      if (!(error instanceof S3Refusal) || error.status >= 500 || error.status === 429) throw error
      const advice = 'Check the bucket, the region and the keys in the environment.'
      throw StaticError.of('invalid_request', `${error.message.trim()}. ${advice}`, { cause: error })
    }
  }

  async put(key: string, part: number, body: AsyncIterable<Uint8Array>, bytes: number): Promise<void> {
    const name = `${this.#of(key)}${part}`
    const file = await this.#spoolFile()
    try {
      await writeBody(file, body, bytes).catch((error: unknown) => {
        throw fullOr(error)
      })
      await this.#client.text({ method: 'PUT', name, body: { file, bytes } })
    } finally {
      await file.close()
    }
  }

  async get(key: string, part: number, bytes: number): Promise<AsyncIterable<Uint8Array> | undefined> {
    const answer = await this.#client.open({ method: 'GET', name: `${this.#of(key)}${part}` })
    if (!answer) return undefined
    if (answer.headers['content-length'] === String(bytes)) return answer
    answer.destroy()
    return undefined
  }

  async delete(key: string): Promise<void> {
    const prefix = this.#of(key)
    for await (const { objects } of this.#pages({ prefix })) {
      const left = objects.values()
      const remove = async (): Promise<void> => {
        for (const { part } of left) await this.#client.text({ method: 'DELETE', name: `${prefix}${part}` })
      }
      await Promise.all(Array.from({ length: DELETIONS }, remove))
    }
  }

  async *list(after: string): AsyncIterable<ListedParts> {
    let file: ListedParts | undefined
    // `~` comes after the number of any part.
    const start = after === '' ? {} : { 'start-after': `${this.#prefix}${after}/~` }
    for await (const { objects } of this.#pages({ prefix: this.#prefix, ...start })) {
      for (const { key, changedAt } of objects) {
        if (key <= after) continue
        if (file && file.key !== key) yield file
        file = { key, changedAt: file?.key === key ? Math.max(file.changedAt, changedAt) : changedAt }
      }
    }
    if (file) yield file
  }

  isNearlyFull(): Promise<boolean> {
    return isDiskNearlyFull(this.#spool)
  }

  /** The start of the names of a file's parts. */
  #of(key: string): string {
    if (!KEY.test(key)) throw StaticError.of('internal_error', `${key} is not the key of a file.`)
    return `${this.#prefix}${key}/`
  }

  async *#pages(query: Readonly<Record<string, string>>): AsyncIterable<ListedPage> {
    for (let from: Readonly<Record<string, string>> = {}; ;) {
      const page = await this.#page({ ...query, ...from })
      yield page
      if (page.next === undefined) return
      if (page.next === from['continuation-token']) throw new Error('The object store lists the same page again.')
      from = { 'continuation-token': page.next }
    }
  }

  async #page(query: Readonly<Record<string, string>>): Promise<ListedPage> {
    const text = await this.#client.text({ method: 'GET', name: '', query: { 'list-type': '2', ...query } })
    return readPage(text ?? '', this.#prefix)
  }

  /** A file without a name, so that no crash leaves it behind. */
  async #spoolFile(): Promise<FileHandle> {
    const path = join(this.#spool, `.${randomBytes(8).toString('hex')}.spool`)
    const file = await open(path, 'wx+', 0o600)
    await rm(path)
    return file
  }
}
