/**
 * The parts of one file on their way to or from the relay. Lost connections and busy relays are waited out; a token that
 * has expired is replaced by FileStatus, which also waits until the agent has a session again.
 */
import { type ErrorCode, ERRORS, message, StaticError, toHex } from '@static/protocol'
import { FileStatusRequestSchema } from '@static/protocol/relay'
import { peerSentence } from '@static/node/peer-text'
import type { AgentChannel } from '../channel/channel.ts'
import type { FilesPlace, PartReply, PartRequest } from '../ports/index.ts'
import type { AgentFiles } from './agent-files.ts'
import type { FileServices } from './file-services.ts'

/** How often in a row parts may fail to arrive while the session works. */
const MOST_FAILURES = 8
const BACKOFF_MS = { first: 250, most: 8000 } as const
/** Longer waits are for the application to decide. */
const LONGEST_WAIT_MS = 60_000
const USUAL_WAIT_MS = 1000
const MS = 1000
const MOST_CHARACTERS = 400

/** The transfer of one file. */
export class PartTransfer {
  readonly #agent: FileServices
  readonly #files: AgentFiles
  readonly #channel: AgentChannel
  readonly #fileId: Uint8Array
  readonly #signal: AbortSignal
  #token: string
  #renewing: Promise<void> | undefined
  /** Since a part arrived. */
  #failures = 0

  constructor(
    agent: FileServices,
    files: AgentFiles,
    channel: AgentChannel,
    { fileId, token, signal }: { readonly fileId: Uint8Array; readonly token: string; readonly signal: AbortSignal },
  ) {
    this.#agent = agent
    this.#files = files
    this.#channel = channel
    this.#fileId = fileId
    this.#token = token
    this.#signal = signal
  }

  /** Stores a part at the relay. */
  async put(part: number, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    await this.#exchange(part, (request) => this.#files.line.put(request, bytes))
  }

  /** Fetches a part. Nothing vouches for it yet. */
  async get(part: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
    return await this.#exchange(part, (request) => this.#files.line.get(request, length))
  }

  async #exchange(part: number, send: (request: PartRequest) => Promise<PartReply>): Promise<Uint8Array<ArrayBuffer>> {
    const path = `/v1/files/${this.#channel.id}/${toHex(this.#fileId)}/${part}`
    for (;;) {
      this.#signal.throwIfAborted()
      const token = this.#token
      let reply: PartReply
      try {
        reply = await send({ place: this.#place, path, token, signal: this.#signal })
      } catch (error) {
        this.#signal.throwIfAborted()
        await this.#lost(StaticError.from(error))
        continue
      }
      if (reply.type === 'done') {
        this.#failures = 0
        // An older answer may come later: only the token that was used is replaced.
        if (reply.token !== undefined && this.#token === token) this.#token = reply.token
        return reply.bytes
      }
      await this.#refused(reply, token)
    }
  }

  get #place(): FilesPlace {
    const { filesPlace } = this.#agent
    if (filesPlace) return filesPlace
    throw StaticError.of('files_unavailable', 'The relay has not said where the parts of files are.')
  }

  /** A part may or may not have arrived. */
  async #lost(error: StaticError): Promise<void> {
    if (error.code !== 'connection_error' && error.code !== 'transport_error') throw error
    const failures = ++this.#failures
    if (failures > MOST_FAILURES) {
      const { host, port } = this.#place
      const text = `The relay's port of files, ${host}:${port} (TCP), cannot be reached, although the session works: ${error.message}`
      throw StaticError.of('connection_error', text, { cause: error })
    }
    await this.#wait(Math.min(BACKOFF_MS.first * 2 ** (failures - 1), BACKOFF_MS.most))
    // Waits for a session, and the relay's port of files may be elsewhere then.
    await this.#renew(this.#token)
  }

  async #refused(reply: Extract<PartReply, { type: 'refused' }>, token: string): Promise<void> {
    const { status, retryAfterMs = USUAL_WAIT_MS } = reply
    const error = errorOf(reply)
    if (status === 401) {
      if (++this.#failures > MOST_FAILURES) throw error
      return await this.#renew(token)
    }
    const passes = error.code === 'rate_limited' || error.code === 'unavailable'
    if (!passes || retryAfterMs > LONGEST_WAIT_MS) throw error
    if (error.code === 'unavailable' && ++this.#failures > MOST_FAILURES) throw error
    await this.#wait(retryAfterMs)
  }

  /** Gets another token in place of this one, once for all parts that need it. */
  async #renew(token: string): Promise<void> {
    if (this.#token !== token) return
    this.#renewing ??= this.#askToken().finally(() => (this.#renewing = undefined))
    await this.#untilAborted(this.#renewing)
  }

  async #askToken(): Promise<void> {
    const { channelId } = this.#channel
    const value = message(FileStatusRequestSchema, { channelId, fileId: this.#fileId, visible: this.#files.visible })
    this.#token = await this.#agent.requests.ask({ case: 'fileStatus', value }, (answer) => answer.sessionToken)
  }

  async #wait(milliseconds: number): Promise<void> {
    await this.#untilAborted(this.#agent.timers.wait(milliseconds))
  }

  async #untilAborted(pending: Promise<void>): Promise<void> {
    await untilAborted(this.#signal, pending)
  }
}

/** Waits for a promise, or until the signal is aborted: then throws its reason. */
export async function untilAborted<Value>(signal: AbortSignal, pending: Promise<Value>): Promise<Value> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const abort = (): void => reject(signal.reason as Error)
  // If both fail, one of them has no other listener.
  pending.catch(() => {})
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([pending, aborted])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** The error for a refusal. Answers of something in between have a status alone. */
function errorOf({ status, code, message: text, retryAfterMs }: Extract<PartReply, { type: 'refused' }>): StaticError {
  const known = Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : codeOf(status)
  const details = retryAfterMs === undefined ? {} : { retryAfter: retryAfterMs / MS }
  return StaticError.of(known, peerSentence(text, MOST_CHARACTERS) || ERRORS[known].help, details)
}

function codeOf(status: number): ErrorCode {
  if (status === 401) return 'auth_failed'
  if (status === 410) return 'file_expired'
  if (status === 429) return 'rate_limited'
  return status >= 500 ? 'unavailable' : 'transport_error'
}
