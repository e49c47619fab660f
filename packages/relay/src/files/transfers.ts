/**
 * The requests for parts (SPEC.md, "Files"): one part in or out, each with a place, at the speed that the node allows.
 * The gate decides whether it may pass; the bytes never reach its thread.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import { SESSION_METADATA, StaticError } from '@static/protocol'
import type { PartAnswer, PartAsk, PartGate, Parts, Time } from '../ports.ts'
import type { HttpRequest } from '../transport/http2/plain.ts'
import type { HttpResponse } from '../transport/http2/responses.ts'
import { askOf, BUSY_MS, limitBody, refuse } from './part-request.ts'
import { TOTAL_MS } from './part-server.ts'
import { type Place, Places } from './places.ts'
import type { FilesCounts } from './thread-messages.ts'
import { Throttle } from './throttle.ts'

/** How long a body may pass no byte. */
const STALL_MS = 30_000
/** No read from a connection brings more at once. */
const PIECE_BYTES = 65_536

/** The limits of transfers; tests set shorter times. */
export interface TransferLimits {
  readonly stallMs: number
  readonly totalMs: number
}

export const TRANSFER_LIMITS: TransferLimits = { stallMs: STALL_MS, totalMs: TOTAL_MS }

/** The dependencies of transfers. */
export interface TransfersOptions {
  readonly parts: Parts
  readonly gate: PartGate
  readonly bytesPerSecond: number
  readonly monotonic: () => Time
  /** Receives internal failures. */
  readonly failed: (error: unknown) => void
  readonly places?: Places
  readonly limits?: TransferLimits
}

/** One request, once it is known what it wants. */
interface Transfer {
  readonly id: number
  readonly ask: PartAsk
  readonly request: HttpRequest
  readonly response: HttpResponse
  readonly place: Place
  /** Ends it: its peer is gone or too slow, or its place was needed. */
  readonly ending: AbortController
}

type Go = Extract<PartAnswer, { type: 'go' }>

/** Serves parts. */
export class Transfers {
  readonly #options: TransfersOptions
  readonly #places: Places
  readonly #throttle: Throttle
  readonly #limits: TransferLimits
  readonly #counts = { stored: { parts: 0, bytes: 0 }, sent: { parts: 0, bytes: 0 }, ousted: 0 }
  #lastId = 0

  constructor(options: TransfersOptions) {
    this.#options = options
    this.#places = options.places ?? new Places()
    this.#limits = options.limits ?? TRANSFER_LIMITS
    this.#throttle = new Throttle(options.bytesPerSecond)
  }

  get counts(): FilesCounts {
    const { stored, sent, ousted } = this.#counts
    return { stored: { ...stored }, sent: { ...sent }, bodies: this.#places.taken, ousted }
  }

  /** Answers a request from an address, as limits count it. */
  async handle(request: HttpRequest, response: HttpResponse, address: string): Promise<void> {
    limitBody(request, response)
    const ask = askOf(request)
    if ('refused' in ask) return refuse(response, ask)
    const ending = new AbortController()
    const end = (): void => ending.abort()
    response.once('close', end)
    const place = this.#places.take(address, this.#options.monotonic(), () => {
      this.#counts.ousted++
      end()
    })
    if (!place) {
      this.#counts.ousted++
      const message = 'Too many parts are under way. Retry after 1 s.'
      return refuse(response, { refused: 'rate_limited', message, retryAfterMs: BUSY_MS })
    }
    const late = setTimeout(end, this.#limits.totalMs)
    try {
      await this.#transfer({ id: ++this.#lastId, ask, request, response, place, ending })
    } catch (error) {
      this.#fail(response, error, ending.signal.aborted)
    } finally {
      clearTimeout(late)
      this.#places.leave(place)
    }
  }

  async #transfer(transfer: Transfer): Promise<void> {
    const { id, ask, response } = transfer
    const { gate } = this.#options
    const answer = await gate.ask(id, ask)
    if (answer.type === 'refused') return refuse(response, answer.refusal)
    if (answer.type !== 'go') throw StaticError.of('internal_error', `The relay answered ${answer.type}, not go.`)
    try {
      if (answer.token !== undefined) response.setHeader(SESSION_METADATA, answer.token)
      await (ask.verb === 'put' ? this.#take(transfer, answer) : this.#give(transfer, answer))
    } finally {
      gate.over(id)
    }
  }

  // ---- In ----

  async #take(transfer: Transfer, { key, bytes, stored }: Go): Promise<void> {
    const { id, ask, request, response } = transfer
    const length = request.headers['content-length']
    if (length !== String(bytes)) {
      const message = `Content-Length must be ${bytes}, the size of this part, not ${length ?? 'absent'}.`
      return refuse(response, { refused: 'invalid_request', message })
    }
    const sum = { crc: 0, bytes: 0 }
    const body = this.#received(transfer, bytes, sum)
    if (stored === undefined) {
      await this.#options.parts.put(key, ask.part, body, bytes)
      const answer = await this.#options.gate.store(id, sum.crc)
      if (answer.type === 'refused') {
        // The file has ended meanwhile, so nobody pays for these bytes, and no record leads to them.
        if (answer.refusal.refused === 'file_expired') await this.#options.parts.delete(key, ask.part + 1)
        return refuse(response, answer.refusal)
      }
      this.#counts.stored.parts++
      this.#counts.stored.bytes += bytes
    } else {
      for await (const _ of body);
      if (sum.bytes !== bytes || sum.crc !== stored) {
        return refuse(response, { refused: 'invalid_request', message: `Other bytes of part ${ask.part} are stored.` })
      }
    }
    response.writeHead(204).end()
  }

  /** The body as it arrives, at the node's speed, counted and summed up. */
  async *#received(
    { request, place, ending }: Transfer,
    bytes: number,
    sum: { crc: number; bytes: number },
  ): AsyncIterable<Uint8Array> {
    const chunks = (request as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]()
    try {
      while (sum.bytes <= bytes) {
        const next = await this.#within(chunks.next(), ending)
        if (next.done === true) return
        const chunk = next.value
        sum.crc = crc32(chunk, sum.crc)
        sum.bytes += chunk.length
        place.bytes += chunk.length
        await this.#pass(chunk.length, ending)
        yield chunk
      }
    } finally {
      // Reads no further; a request that was not read to its end is destroyed with its response.
      if (ending.signal.aborted) request.destroy()
    }
  }

  // ---- Out ----

  async #give(transfer: Transfer, { key, bytes }: Go): Promise<void> {
    const { ask, response, place, ending } = transfer
    const body = await this.#options.parts.get(key, ask.part, bytes)
    // Lost with a disk, or not in the backup that the operator has restored.
    if (!body) return refuse(response, { refused: 'file_expired' })
    response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': bytes })
    for await (const chunk of body) {
      await this.#pass(chunk.length, ending)
      if (!response.write(chunk, () => letGo(chunk))) await this.#within(drained(response, ending.signal), ending)
      place.bytes += chunk.length
    }
    response.end()
    await this.#within(finished(response, ending.signal), ending)
    this.#counts.sent.parts++
    this.#counts.sent.bytes += bytes
  }

  // ---- Pace ----

  /** Waits until so many bytes may have passed. */
  async #pass(bytes: number, { signal }: AbortController): Promise<void> {
    const ms = this.#throttle.pass(bytes, this.#options.monotonic())
    if (ms > 0) await wait(ms, undefined, { signal })
  }

  /** Waits for the peer, but not for long. */
  async #within<Value>(moved: Promise<Value>, ending: AbortController): Promise<Value> {
    const { promise: gone, reject } = Promise.withResolvers<never>()
    const { signal } = ending
    const end = (): void => reject(signal.reason as Error)
    const late = setTimeout(() => ending.abort(), this.#limits.stallMs)
    signal.addEventListener('abort', end, { once: true })
    if (signal.aborted) end()
    // If both fail, one of them has no other listener.
    moved.catch(() => {})
    try {
      return await Promise.race([moved, gone])
    } finally {
      clearTimeout(late)
      signal.removeEventListener('abort', end)
    }
  }

  #fail(response: HttpResponse, error: unknown, isOver: boolean): void {
    if (isOver || response.headersSent) {
      response.destroy()
      return
    }
    const known = StaticError.from(error)
    if (known.code === 'internal_error') this.#options.failed(error)
    const refused = known.code === 'internal_error' ? 'unavailable' : known.code
    refuse(response, known.code === refused ? { refused, message: known.message } : { refused })
  }
}

/**
 * Frees at once what was read from a disk: collecting it as garbage would cost as much as sending it. What was read from
 * a connection comes in shorter pieces, and Node may use their memory again.
 */
function letGo({ buffer, length }: Uint8Array): void {
  const isAlone = length > PIECE_BYTES && length === buffer.byteLength
  if (isAlone && buffer instanceof ArrayBuffer) buffer.transfer(0)
}

function drained(response: HttpResponse, signal: AbortSignal): Promise<unknown> {
  return heard(response, 'drain', signal)
}

function finished(response: HttpResponse, signal: AbortSignal): Promise<unknown> {
  return response.writableFinished ? Promise.resolve() : heard(response, 'finish', signal)
}

function heard(response: HttpResponse, event: 'drain' | 'finish', signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const listener = (): void => resolve()
  response.once(event, listener)
  signal.addEventListener('abort', () => response.off(event, listener), { once: true })
  return promise
}
