/**
 * The files of one channel on disk: those that messages have brought, until they are saved or dropped, and those that
 * this agent is sending. Nothing is fetched before the application asks for it.
 */
import { message, StaticError, toHex } from '@static/protocol'
import { DropFileRequestSchema, FileStatusRequestSchema } from '@static/protocol/relay'
import type { AgentContext } from '../agent/context.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { Part } from '../channel/part.ts'
import type {
  AgentId,
  Change,
  FileRecord,
  InboxRecord,
  StoredChannel,
  Time,
  UploadPart,
  UploadRecord,
} from '../ports/index.ts'
import type { FileMessage } from './file-frame.ts'

/** An honest relay keeps as many files in a channel. */
const MOST_FILES = 1000
/** An upload that nobody has continued for this long is gone from the relay. */
const UPLOAD_MS = 24 * 3_600_000
/** How long relays keep files, unless their operator says otherwise: then it is asked. */
const KEPT_MS = 7 * 24 * 3_600_000
/** When to ask again if the relay could not answer. */
const ASK_AGAIN_MS = 3_600_000
/** Refusals that mean that this agent can no longer fetch the file. */
const GONE: ReadonlySet<string> = new Set(['file_expired', 'not_found', 'removed', 'not_allowed'])

type FilesContext = Pick<AgentContext, 'journal' | 'session' | 'now' | 'files'>

/** The files of one channel. */
export class ChannelFiles extends Part {
  readonly #context: FilesContext
  readonly #channel: AgentChannel
  /** By the index of its message, in order. */
  readonly #files: Map<number, FileRecord>
  readonly #uploads: Map<string, UploadRecord>
  /** Uploads and files with which a call is busy. */
  readonly #busy = new Set<string | number>()
  #changes: Change[] = []
  /** Calls that wait until their changes are on disk: not drained yet, and drained. */
  #logged: PromiseWithResolvers<void>[] = []
  #drained: PromiseWithResolvers<void>[] = []
  #ended: StaticError | undefined
  /** When to ask the relay whether it still has a file. */
  readonly #askAt = new Map<number, Time>()
  #isAsking = false

  constructor(
    context: FilesContext,
    channel: AgentChannel,
    { files, uploads }: Pick<StoredChannel, 'files' | 'uploads'>,
  ) {
    super()
    this.#context = context
    this.#channel = channel
    this.#files = new Map(files.map((file) => [file.index, file]))
    this.#uploads = new Map(uploads.map((upload) => [toHex(upload.fileId), upload]))
  }

  // ---- Files of others ----

  /** A message has brought a file. */
  arrive({ index, messageId, sender, identity, receivedAt }: InboxRecord, file: FileMessage): void {
    const { size, name, type } = file
    const record: FileRecord = {
      index,
      size,
      name,
      type,
      sender,
      receivedAt,
      // Copies, because the frame is only lent.
      fileId: Uint8Array.from(file.fileId),
      secret: Uint8Array.from(file.secret),
      messageId: Uint8Array.from(messageId),
      identity: Uint8Array.from(identity),
      target: undefined,
      partFile: undefined,
      savedParts: 0,
      isDone: false,
    }
    if (this.#files.size >= MOST_FILES) this.#makeRoom()
    this.#files.set(index, record)
    const { id } = this.#channel
    const digests = Uint8Array.from(file.digests)
    this.#change({ type: 'putFile', id, record }, { type: 'putFileDigests', id, index, digests })
  }

  /** Those that are neither saved nor dropped, in the order of their messages. */
  list(): readonly FileRecord[] {
    return [...this.#files.values()].filter(({ isDone }) => !isDone)
  }

  /**
   * The file of a message.
   *
   * @throws {StaticError} `file_expired` if it was saved or dropped, or the relay no longer has it
   */
  get(index: number): FileRecord {
    const record = this.#files.get(index)
    if (record && !record.isDone) return record
    const text = 'This agent has saved or dropped the file, or the relay no longer has it.'
    throw StaticError.of('file_expired', text)
  }

  has(index: number): boolean {
    return this.#files.get(index)?.isDone === false
  }

  /** The hashes of the parts of a file, one after the other. */
  digests(index: number): Uint8Array {
    const digests = this.#context.journal.fileDigests(this.#channel.id, index)
    if (digests) return digests
    throw StaticError.of('store_corrupt', `The hashes of the file of message ${index} are missing.`)
  }

  /** Records how far a file is saved. */
  update(index: number, progress: Partial<Pick<FileRecord, 'target' | 'partFile' | 'savedParts'>>): void {
    const record = { ...this.get(index), ...progress }
    this.#files.set(index, record)
    this.#change({ type: 'putFile', id: this.#channel.id, record })
  }

  /** The file is saved or not wanted: forgets its key once that is on disk, and tells the relay until it has heard. */
  async finish(index: number): Promise<void> {
    const record = { ...this.get(index), secret: new Uint8Array(), isDone: true }
    this.#files.set(index, record)
    await this.log({ type: 'putFile', id: this.#channel.id, record })
    this.#tell(record)
  }

  /** The relay no longer has the file. Resolves when nor has the disk an unfinished one. */
  async forget(index: number): Promise<void> {
    const record = this.#files.get(index)
    if (!record) return
    this.#files.delete(index)
    this.#askAt.delete(index)
    this.#change({ type: 'dropFile', id: this.#channel.id, index })
    const { target, partFile, isDone } = record
    if (isDone || target === undefined || partFile === undefined) return
    await this.#context.files?.disk.discard(target, partFile).catch(() => {})
  }

  // ---- Files of this agent ----

  begin(record: UploadRecord): void {
    this.#uploads.set(toHex(record.fileId), record)
    this.#change({ type: 'putUpload', id: this.#channel.id, record })
  }

  /** An upload that a crash has interrupted, or a lost connection, of which nothing is under way. */
  interrupted(matches: (upload: UploadRecord) => boolean): UploadRecord | undefined {
    return [...this.#uploads].find(([name, upload]) => !this.#busy.has(name) && matches(upload))?.[1]
  }

  /** The parts that may have been sent. */
  partsOf({ fileId }: Pick<UploadRecord, 'fileId'>): readonly UploadPart[] {
    return this.#context.journal.uploadParts(this.#channel.id, fileId)
  }

  /** Puts on disk how a part is encrypted. Only then may it be sent. */
  async logPart(fileId: Uint8Array, part: UploadPart): Promise<void> {
    await this.log({ type: 'putUploadPart', id: this.#channel.id, fileId, part })
  }

  /** The upload is over: its message is encrypted, or never will be. Written together with what else changes now. */
  endUpload(fileId: Uint8Array): void {
    if (!this.#uploads.delete(toHex(fileId))) return
    this.#change({ type: 'dropUpload', id: this.#channel.id, fileId })
  }

  /** Deletes a file at the relay that will not be sent. If the relay does not hear it, it deletes the file itself. */
  withdraw(fileId: Uint8Array): void {
    const value = message(DropFileRequestSchema, { channelId: this.#channel.channelId, fileId, everyone: true })
    this.#context.session.request({ case: 'dropFile', value }, () => {})
  }

  // ---- Both ----

  isBusy(name: string | number): boolean {
    return this.#busy.has(name)
  }

  /** Runs the only call that works on a file or an upload. */
  async alone<Result>(name: string | number, task: () => Promise<Result>): Promise<Result> {
    if (this.#busy.has(name)) throw StaticError.of('invalid_request', 'The file is being saved by another call.')
    this.#busy.add(name)
    try {
      return await task()
    } finally {
      this.#busy.delete(name)
    }
  }

  /**
   * Resolves once everything so far is on disk, with these changes.
   *
   * @throws {StaticError} why it never will be
   */
  async log(...changes: readonly Change[]): Promise<void> {
    if (this.#ended) throw this.#ended
    const waiting = Promise.withResolvers<void>()
    this.#logged.push(waiting)
    this.#change(...changes)
    await waiting.promise
  }

  override drain(): readonly Change[] {
    const changes = this.#changes
    this.#changes = []
    this.#drained.push(...this.#logged.splice(0))
    return changes
  }

  override written(): void {
    for (const { resolve } of this.#drained.splice(0)) resolve()
  }

  /** If changes are drained and cannot be stored, the channel ends as well. */
  override end(error: StaticError): void {
    this.#ended ??= error
    for (const { reject } of [...this.#drained.splice(0), ...this.#logged.splice(0)]) reject(error)
  }

  /** Tells the relay what it may not have heard. */
  override resumed(): void {
    for (const record of this.#files.values()) if (record.isDone) this.#tell(record)
  }

  /** Forgets what the relay no longer has. */
  tick(now: Time): void {
    if (!this.#channel.intake.isOnline || this.#isAsking) return
    for (const upload of this.#uploads.values())
      if (now - upload.begunAt > UPLOAD_MS && !this.#busy.has(toHex(upload.fileId))) this.endUpload(upload.fileId)
    for (const record of this.#files.values()) {
      const due = this.#askAt.get(record.index) ?? record.receivedAt + KEPT_MS
      if (now >= due && !this.#busy.has(record.index)) return this.#ask(record, now)
    }
  }

  #change(...changes: readonly Change[]): void {
    this.#changes.push(...changes)
    this.#channel.turn.touchPart()
  }

  /** Forgets the oldest file of the sender with the most, so that a member can push out only its own. */
  #makeRoom(): void {
    const counts = new Map<AgentId, number>()
    for (const { sender } of this.#files.values()) counts.set(sender, (counts.get(sender) ?? 0) + 1)
    const most = Math.max(...counts.values())
    const oldest = [...this.#files.values()].find(
      ({ sender, index }) => counts.get(sender) === most && !this.#busy.has(index),
    )
    if (oldest) void this.forget(oldest.index)
  }

  #tell({ index, fileId }: FileRecord): void {
    const value = message(DropFileRequestSchema, { channelId: this.#channel.channelId, fileId, everyone: false })
    this.#context.session.request({ case: 'dropFile', value }, (outcome) => {
      // If the answer is lost, the next session asks again.
      if (outcome.type === 'answered' || (outcome.type === 'refused' && GONE.has(outcome.error.code)))
        void this.forget(index)
    })
  }

  /** Asks the relay whether it still has a file that it may have deleted by now. */
  #ask({ index, fileId }: FileRecord, now: Time): void {
    this.#isAsking = true
    const { channelId } = this.#channel
    const value = message(FileStatusRequestSchema, {
      channelId,
      fileId,
      visible: this.#context.files?.visible === true,
    })
    this.#context.session.request({ case: 'fileStatus', value }, (outcome) => {
      this.#isAsking = false
      this.#askAt.set(index, now + ASK_AGAIN_MS)
      // A call that works on it meanwhile finds out by itself.
      const isGone = outcome.type === 'refused' && GONE.has(outcome.error.code)
      if (isGone && !this.#busy.has(index)) void this.forget(index)
      if (outcome.type !== 'answered' || outcome.body.case !== 'fileStatus') return
      this.#askAt.set(index, Math.max(Number(outcome.body.value.state?.expiresAtMs ?? 0n), now + ASK_AGAIN_MS))
    })
  }
}
