/**
 * Sending a file: its parts first, then the message that names it. The steps of a file with a path:
 *
 * 1. The upload is on disk: a new id and a new secret, or those of an upload of the same file that was interrupted.
 * 2. BeginFile: the relay reserves room, and says which parts it has.
 * 3. Each part is read and encrypted with a new nonce, which is then put on disk with the hash of the result, and only
 *    then sent. A part of which the nonce is on disk is encrypted with that one. If the hash differs, the file has
 *    changed, and nothing is sent: one nonce never encrypts two plaintexts.
 * 4. The file must still be as it was when it was opened.
 * 5. The message is encrypted and stored in the same transaction that ends the upload. From here on it is sent like
 *    others, even after a crash.
 *
 * A stream is encrypted into a spool first, since its size is not known before its end. It does not outlive the process.
 */
import type { BulkKey } from '#platform/crypto'
import {
  FILE_ID_BYTES,
  FILE_PART_BYTES,
  FILE_PART_OVERHEAD,
  HASH_BYTES,
  MAX_FILE_BYTES,
  message,
  paddedFileBytes,
  StaticError,
  toHex,
} from '@static/protocol'
import { BeginFileRequestSchema, type FileState } from '@static/protocol/relay'
import type { AgentChannel } from '../channel/channel.ts'
import { newMessageId } from '../channel/sending/message-id.ts'
import type { SentMessage } from '../channel/sending/outbox.ts'
import { release, same } from '../platform/bytes.ts'
import type { OpenedSource, Spool, UploadPart, UploadRecord } from '../ports/index.ts'
import { encodeFile, FILE_SECRET_BYTES, type FileFacts, partsOfFile } from './file-frame.ts'
import {
  contentBytesOf,
  fileKey,
  PART_NONCE_BYTES,
  plainBytesOf,
  type SealedPart,
  sealedBytesOf,
  sealPart,
} from './file-parts.ts'
import { type AgentFiles, allowedFiles } from './agent-files.ts'
import type { FileServices } from './file-services.ts'
import { MOST_PARTS_AT_ONCE } from './part-places.ts'
import { PartTransfer, untilAborted } from './part-transfer.ts'

/** Returned once the relay has stored the message that names a file. */
export interface SentFile extends SentMessage {
  /** 32 hexadecimal digits. */
  readonly fileId: string
}

/** What goes with a file. */
export interface AboutFile {
  readonly name: string
  readonly type: string
  /** The payload of its message. */
  readonly text: string
  readonly signal: AbortSignal
  /** Called with the bytes of the file that the relay has, and its size. */
  readonly progress: (bytes: number, size: number) => void
}

/** The message may still be sent: it is in the outbox. */
const PENDING: ReadonlySet<string> = new Set(['send_pending', 'closed', 'store_failed'])
/** The upload can be continued later. */
const PASSING: ReadonlySet<string> = new Set([
  ...PENDING,
  'connection_error',
  'transport_error',
  'unavailable',
  'rate_limited',
  'quota_exceeded',
])

/** A file on its way, and what it needs. */
interface Sending {
  readonly agent: FileServices
  readonly files: AgentFiles
  readonly channel: AgentChannel
  readonly about: AboutFile
}

/** How far it is. */
interface SendingState {
  /** The relay has reserved room. */
  hasBegun: boolean
  /** The message is encrypted, and the upload over. */
  isSealed: boolean
}

interface PartToSend extends SealedPart {
  /** Whether it may have been sent before. */
  readonly wasLogged: boolean
}

/** Where the parts of a file come from, encrypted. */
interface SealedFile {
  readonly facts: FileFacts
  part(part: number): Promise<PartToSend>
  /** Throws if the parts are not of one version of the file. */
  check(): Promise<void>
}

/**
 * Sends a regular file. An interrupted upload of the same file, with the same name, type and text, is continued.
 *
 * @throws {StaticError} `file_changed`, `invalid_request` if the file cannot be read, and the relay's refusals
 */
export async function sendPath(
  agent: FileServices,
  channel: AgentChannel,
  path: string,
  about: AboutFile,
): Promise<SentFile> {
  const sending = begin(agent, channel, about)
  const source = await sending.files.disk.openSource(path)
  try {
    if (source.size > MAX_FILE_BYTES) throw tooLarge(source.size)
    const { name, type, text } = about
    const interrupted = channel.files.interrupted(
      (upload) => upload.path === source.path && upload.name === name && upload.type === type && upload.text === text,
    )
    if (interrupted) {
      const sent = await unlessExpired(() => sendUpload(sending, source, interrupted, false))
      if (sent) return sent
    }
    const names = { fileId: agent.context.random(FILE_ID_BYTES), secret: agent.context.random(FILE_SECRET_BYTES) }
    const upload = { ...names, name, type, text, size: source.size, path: source.path, begunAt: agent.context.now() }
    return await sendUpload(sending, source, upload, true)
  } finally {
    await source.close()
  }
}

/**
 * Sends what a stream yields. It is read to its end first.
 *
 * @throws {StaticError} `invalid_request` if it yields anything but bytes, and the relay's refusals
 */
export async function sendStream(
  agent: FileServices,
  channel: AgentChannel,
  stream: AsyncIterable<Uint8Array>,
  about: AboutFile,
): Promise<SentFile> {
  const sending = begin(agent, channel, about)
  const { name, type, signal } = about
  const names = { fileId: agent.context.random(FILE_ID_BYTES), secret: agent.context.random(FILE_SECRET_BYTES) }
  const key = await fileKey(channel.channelId, names)
  const spool = await sending.files.disk.openSpool()
  const state: SendingState = { hasBegun: false, isSealed: false }
  try {
    const filling = new SpoolFilling(agent, key, spool)
    await readAll(stream, signal, (chunk) => filling.take(chunk))
    const { size, digests } = await filling.finish()
    const part = async (at: number): Promise<PartToSend> => {
      const bytes = new Uint8Array(sealedBytesOf(size, at))
      await spool.read(bytes, at * (FILE_PART_BYTES + FILE_PART_OVERHEAD))
      return { bytes, digest: digests[at] ?? new Uint8Array(), wasLogged: false }
    }
    return await transfer(
      sending,
      { facts: { ...names, size, name, type }, part, check: () => Promise.resolve() },
      state,
    )
  } catch (error) {
    if (!(state.isSealed && PENDING.has(StaticError.from(error).code))) channel.files.withdraw(names.fileId)
    throw error
  } finally {
    await spool.close()
  }
}

function begin(agent: FileServices, channel: AgentChannel, about: AboutFile): Sending {
  const files = allowedFiles(agent.context)
  const refusal = channel.standing.refusal()
  if (refusal) throw refusal
  about.signal.throwIfAborted()
  return { agent, files, channel, about }
}

// ---- A file with a path ----

async function sendUpload(
  sending: Sending,
  source: OpenedSource,
  upload: UploadRecord,
  isNew: boolean,
): Promise<SentFile> {
  const { files } = sending.channel
  const { fileId } = upload
  return await files.alone(toHex(fileId), async () => {
    if (isNew) files.begin(upload)
    const state: SendingState = { hasBegun: !isNew, isSealed: false }
    try {
      if (upload.size !== source.size) throw changed(`it has ${source.size} bytes, and had ${upload.size}`)
      await files.log()
      const key = await fileKey(sending.channel.channelId, upload)
      return await transfer(sending, new SourceParts(sending, source, upload, key), state)
    } catch (error) {
      const { code } = StaticError.from(error)
      const isKept = (state.hasBegun && !state.isSealed ? PASSING : PENDING).has(code)
      if (!isKept) {
        files.endUpload(fileId)
        files.withdraw(fileId)
      }
      throw error
    }
  })
}

/** Undefined if the relay no longer knows the upload. */
async function unlessExpired(send: () => Promise<SentFile>): Promise<SentFile | undefined> {
  try {
    return await send()
  } catch (error) {
    if (error instanceof StaticError && error.code === 'file_expired') return undefined
    throw error
  }
}

/** The parts of a file, each encrypted with the nonce that is on disk for it. */
class SourceParts implements SealedFile {
  readonly facts: FileFacts
  readonly #sending: Sending
  readonly #source: OpenedSource
  readonly #key: BulkKey
  readonly #logged: ReadonlyMap<number, UploadPart>

  constructor(sending: Sending, source: OpenedSource, upload: UploadRecord, key: BulkKey) {
    this.facts = upload
    this.#sending = sending
    this.#source = source
    this.#key = key
    this.#logged = new Map(sending.channel.files.partsOf(upload).map((logged) => [logged.part, logged]))
  }

  async part(part: number): Promise<PartToSend> {
    const bytes = plainBytesOf(this.facts.size, part)
    return await this.#sending.files.places.withBuffer((buffer) => this.#part(part, buffer.subarray(0, bytes)))
  }

  async #part(part: number, plaintext: Uint8Array<ArrayBuffer>): Promise<PartToSend> {
    const { size, fileId } = this.facts
    const content = contentBytesOf(size, part)
    const read = await this.#source.read(plaintext.subarray(0, content), part * FILE_PART_BYTES)
    if (read !== content) throw changed('it is shorter than before')
    plaintext.fill(0, content)
    const logged = this.#logged.get(part)
    if (logged) {
      const sealed = await sealPart(this.#key, part, Uint8Array.from(logged.nonce), plaintext)
      if (!same(sealed.digest, logged.digest)) throw changed(`part ${part} has changed since the upload began`)
      return { ...sealed, wasLogged: true }
    }
    const nonce = Uint8Array.from(this.#sending.agent.context.random(PART_NONCE_BYTES))
    const sealed = await sealPart(this.#key, part, nonce, plaintext)
    await this.#sending.channel.files.logPart(fileId, { part, nonce, digest: sealed.digest })
    return { ...sealed, wasLogged: false }
  }

  async check(): Promise<void> {
    if (!(await this.#source.isUnchanged())) throw changed('something has written to it')
  }
}

// ---- A stream ----

/** Encrypts a stream, part by part, into a spool. */
class SpoolFilling {
  readonly #agent: FileServices
  readonly #key: BulkKey
  readonly #spool: Spool
  readonly #digests: Uint8Array[] = []
  readonly #plaintext = new Uint8Array(FILE_PART_BYTES)
  #filled = 0
  #size = 0

  constructor(agent: FileServices, key: BulkKey, spool: Spool) {
    this.#agent = agent
    this.#key = key
    this.#spool = spool
  }

  async take(chunk: Uint8Array): Promise<void> {
    this.#size += chunk.length
    if (this.#size > MAX_FILE_BYTES) throw tooLarge(this.#size)
    for (let at = 0; at < chunk.length;) {
      // A whole part is encrypted only now, because the last one is padded otherwise.
      if (this.#filled === FILE_PART_BYTES) await this.#seal(FILE_PART_BYTES)
      const taken = chunk.subarray(at, at + FILE_PART_BYTES - this.#filled)
      this.#plaintext.set(taken, this.#filled)
      this.#filled += taken.length
      at += taken.length
    }
  }

  async finish(): Promise<{ readonly size: number; readonly digests: readonly Uint8Array[] }> {
    const size = this.#size
    while (this.#digests.length < partsOfFile(size)) await this.#seal(plainBytesOf(size, this.#digests.length))
    return { size, digests: this.#digests }
  }

  async #seal(length: number): Promise<void> {
    const nonce = Uint8Array.from(this.#agent.context.random(PART_NONCE_BYTES))
    const sealed = await sealPart(this.#key, this.#digests.length, nonce, this.#plaintext.subarray(0, length))
    await this.#spool.append(sealed.bytes)
    release(sealed.bytes)
    this.#digests.push(sealed.digest)
    this.#plaintext.fill(0)
    this.#filled = 0
  }
}

async function readAll(
  stream: AsyncIterable<unknown>,
  signal: AbortSignal,
  take: (chunk: Uint8Array) => Promise<void>,
): Promise<void> {
  const chunks = stream[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = await untilAborted(signal, chunks.next())
      if (next.done === true) return
      if (!(next.value instanceof Uint8Array))
        throw StaticError.of('invalid_request', 'The stream yields something else than bytes (Uint8Array).')
      await take(next.value)
    }
  } catch (error) {
    // Not awaited: a stream that never yields may never end.
    void chunks.return?.().catch(() => {})
    throw error
  }
}

// ---- Both ----

/** Sends the parts, then the message. */
async function transfer(sending: Sending, file: SealedFile, state: SendingState): Promise<SentFile> {
  const { agent, channel, about } = sending
  const { facts } = file
  const reserved = await reserve(sending, facts)
  state.hasBegun = true
  const digests = await sendParts(sending, file, reserved)
  await file.check()
  about.signal.throwIfAborted()
  const sealed = (): void => {
    state.isSealed = true
    channel.files.endUpload(facts.fileId)
  }
  const as = { messageId: newMessageId(agent.context), fileId: facts.fileId, sealed }
  const body = encodeFile({ ...facts, text: about.text, digests })
  const sent = await channel.sender.send('file', body, { signal: about.signal }, as)
  return { ...sent, fileId: toHex(facts.fileId) }
}

/** Room at the relay. */
interface Reserved {
  readonly state: FileState | undefined
  readonly token: string
}

async function reserve({ agent, files, channel, about }: Sending, { fileId, size }: FileFacts): Promise<Reserved> {
  const { channelId } = channel
  const padded = BigInt(paddedFileBytes(size))
  const value = message(BeginFileRequestSchema, { channelId, fileId, size: padded, visible: files.visible })
  const asked = agent.requests.ask({ case: 'beginFile', value }, ({ state, sessionToken: token }) => ({ state, token }))
  return await untilAborted(about.signal, asked)
}

/** Sends the parts that the relay does not have, several at a time. Returns the hashes of all. */
async function sendParts(sending: Sending, file: SealedFile, { state, token }: Reserved): Promise<Uint8Array> {
  const { agent, files, channel, about } = sending
  const { fileId, size } = file.facts
  const count = partsOfFile(size)
  const digests = new Uint8Array(count * HASH_BYTES)
  const ending = new AbortController()
  const signal = AbortSignal.any([about.signal, ending.signal])
  const line = new PartTransfer(agent, files, channel, { fileId, token, signal })
  let [next, sent] = [0, 0]
  const work = async (): Promise<void> => {
    while (next < count) {
      const at = next++
      await files.places.with(async () => {
        signal.throwIfAborted()
        const { bytes, digest, wasLogged } = await file.part(at)
        digests.set(digest, at * HASH_BYTES)
        // A part without a nonce on disk was never sent, whatever the relay says.
        if (!(wasLogged && isStored(state, at))) await line.put(at, bytes)
        release(bytes)
      })
      sent += contentBytesOf(size, at)
      about.progress(sent, size)
    }
  }
  const workers = Array.from({ length: Math.min(MOST_PARTS_AT_ONCE, count) }, async () => {
    await work().catch((error: unknown) => {
      ending.abort(error)
      throw error
    })
  })
  // None may still read the file, or send, after this has failed.
  await Promise.allSettled(workers)
  await Promise.all(workers)
  return digests
}

function isStored(state: FileState | undefined, part: number): boolean {
  return (((state?.parts[part >> 3] ?? 0) >> (part & 7)) & 1) === 1
}

function changed(how: string): StaticError {
  const text = `The file has changed since its upload began: ${how}. Nothing was sent. Send it again once nothing writes to it.`
  return StaticError.of('file_changed', text)
}

function tooLarge(size: number): StaticError {
  return StaticError.of('too_large', `The file has ${size} bytes or more; no relay takes more than ${MAX_FILE_BYTES}.`)
}
