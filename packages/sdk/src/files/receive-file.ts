/**
 * Fetching a file. A part is released only once it is the one that the sender has signed; a wrong one is fetched once
 * more. Saving goes on where it stopped, even after a crash: what is on disk for good is on record.
 */
import { FILE_PART_BYTES, message, StaticError } from '@static/protocol'
import { FileStatusRequestSchema } from '@static/protocol/relay'
import type { AgentChannel } from '../channel/channel.ts'
import type { FileDisk, FileRecord, OpenedTarget } from '../ports/index.ts'
import { release } from '../platform/bytes.ts'
import { partsOfFile } from './file-frame.ts'
import { fileKey, isSigned, openPart, sealedBytesOf } from './file-parts.ts'
import { type AgentFiles, allowedFiles } from './agent-files.ts'
import type { FileServices } from './file-services.ts'
import { MOST_PARTS_AT_ONCE } from './part-places.ts'
import { PartTransfer, untilAborted } from './part-transfer.ts'
import { safeName } from './safe-name.ts'

/** After so many parts, which are 16 MiB, what is saved is made durable. */
const PARTS_A_MARK = 16
/** How many parts of a file are under way or wait for its reader. */
const MOST_OF_FILE = MOST_PARTS_AT_ONCE

/** A wrong part is fetched once more. */
const MOST_TRIES = 2

/** How a file is saved. */
export interface SaveLimits {
  readonly signal: AbortSignal
  /** Called with the bytes that are saved, and the size of the file. */
  readonly progress: (bytes: number, size: number) => void
}

/** Which file, and who fetches it. */
export interface Receiving {
  readonly agent: FileServices
  readonly channel: AgentChannel
  /** Of its message. */
  readonly index: number
}

/**
 * Saves a file, and tells the relay. Returns the path.
 *
 * @throws {StaticError} `file_corrupt`, `file_expired`, `invalid_request` for a path that cannot be written, and the
 *   relay's refusals
 */
export async function saveFile(receiving: Receiving, path: string, limits: SaveLimits): Promise<string> {
  const { agent, channel, index } = receiving
  const { disk } = allowedFiles(agent.context)
  return await channel.files.alone(index, async () => {
    try {
      return await save(receiving, disk, path, limits)
    } catch (error) {
      if (error instanceof StaticError && error.code === 'file_expired') await forget(receiving)
      throw error
    }
  })
}

/**
 * The bytes of a file, in order. The file stays until it is dropped.
 *
 * @throws {StaticError} as `saveFile`
 */
export async function* readFile(receiving: Receiving, signal: AbortSignal): AsyncGenerator<Uint8Array, undefined> {
  const { channel, index } = receiving
  try {
    for await (const { bytes } of fetched(receiving, 0, signal, false)) if (bytes.length > 0) yield bytes
  } catch (error) {
    const isExpired = error instanceof StaticError && error.code === 'file_expired'
    // Another call that saves it finds out as well.
    if (isExpired && !channel.files.isBusy(index)) await channel.files.alone(index, () => forget(receiving))
    throw error
  }
  return undefined
}

/** Drops a file: this agent no longer wants it. */
export async function dropFile({ agent, channel, index }: Receiving): Promise<void> {
  await channel.files.alone(index, async () => {
    const { target, partFile } = channel.files.get(index)
    await channel.files.finish(index)
    const disk = agent.context.files?.disk
    if (target !== undefined && partFile !== undefined) await disk?.discard(target, partFile)
  })
}

/** The relay no longer has it. */
async function forget({ channel, index }: Receiving): Promise<void> {
  if (!channel.files.has(index)) return
  const discarded = channel.files.forget(index)
  await channel.files.log()
  await discarded
}

async function save(
  receiving: Receiving,
  disk: FileDisk,
  path: string,
  { signal, progress }: SaveLimits,
): Promise<string> {
  const { files } = receiving.channel
  signal.throwIfAborted()
  const target = await openTarget(receiving, disk, path)
  try {
    const { size, savedParts } = files.get(receiving.index)
    let saved = savedParts
    if (!target.isComplete) {
      for await (const { bytes, at } of fetched(receiving, saved, signal, true)) {
        await target.write(bytes, at)
        saved++
        const done = Math.min(at + bytes.length, size)
        release(bytes)
        progress(done, size)
        if (saved % PARTS_A_MARK === 0) await mark(receiving, target, saved)
      }
      signal.throwIfAborted()
      await target.finish(size)
    }
    await files.finish(receiving.index)
    return target.path
  } finally {
    await target.close()
  }
}

/** Opens the unfinished file where an interrupted call has left it, or a new one. */
async function openTarget({ channel, index }: Receiving, disk: FileDisk, path: string): Promise<OpenedTarget> {
  const { files } = channel
  const { name, target, partFile } = files.get(index)
  const isSame = target !== undefined && (await disk.leadsTo(path, target))
  if (target !== undefined && partFile !== undefined) {
    const opened = isSame ? await disk.reopenTarget(target, partFile) : undefined
    if (opened) return opened
    await disk.discard(target, partFile)
  }
  let chosen = isSame ? target : await disk.chooseTarget(path, safeName(name))
  for (let isLeft = isSame; ; isLeft = false) {
    // Recorded first, so that what a crash leaves is known to be of this agent.
    files.update(index, { target: chosen, partFile: undefined, savedParts: 0 })
    await files.log()
    const opened = await disk.openTarget(chosen, isLeft)
    if (opened) return await recorded(channel, index, opened)
    // Another file has got this name meanwhile.
    chosen = await disk.chooseTarget(path, safeName(name))
  }
}

/** Puts on disk which file is written to. */
async function recorded({ files }: AgentChannel, index: number, opened: OpenedTarget): Promise<OpenedTarget> {
  try {
    files.update(index, { partFile: opened.identity })
    await files.log()
    return opened
  } catch (error) {
    await opened.close()
    throw error
  }
}

/** What is written so far is on disk for good. */
async function mark({ channel, index }: Receiving, target: OpenedTarget, savedParts: number): Promise<void> {
  await target.sync()
  channel.files.update(index, { savedParts })
  await channel.files.log()
}

/** Some bytes of a file, and where they begin. */
interface FetchedBytes {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly at: number
}

/** A part on its way, or waiting for its reader. */
interface ComingPart {
  readonly bytes: Promise<Uint8Array<ArrayBuffer>>
  /** Its memory is free again. */
  readonly done: () => void
}

/**
 * The verified bytes of a file from a part on, in order; of parts that are padding, none. A part that is written to disk
 * keeps its place until then, so that many files at once take no more memory than one. Others' readers may take their
 * time, and must keep no one waiting.
 */
async function* fetched(
  { agent, channel, index }: Receiving,
  from: number,
  outer: AbortSignal,
  isWritten: boolean,
): AsyncGenerator<FetchedBytes, undefined> {
  const files = allowedFiles(agent.context)
  const { places } = files
  const record = channel.files.get(index)
  const ending = new AbortController()
  const signal = AbortSignal.any([outer, ending.signal])
  const token = await askToken(agent, files, channel, record, signal)
  const line = new PartTransfer(agent, files, channel, { fileId: record.fileId, token, signal })
  const key = await fileKey(channel.channelId, record)
  const digests = channel.files.digests(index)
  const fetch = async (part: number): Promise<Uint8Array<ArrayBuffer>> => {
    signal.throwIfAborted()
    const sealed = await fetchSigned(line, record, part, digests)
    const bytes = await openPart(key, record.size, part, sealed)
    release(sealed)
    signal.throwIfAborted()
    return bytes
  }
  const coming: ComingPart[] = []
  const begin = (part: number, endAhead?: () => void): void => {
    let leave: (() => void) | undefined
    const fetching = async (): Promise<Uint8Array<ArrayBuffer>> => {
      leave = await places.enter()
      let keepsPlace = false
      try {
        const bytes = await fetch(part)
        keepsPlace = isWritten && !endAhead
        return bytes
      } finally {
        if (!keepsPlace) leave()
      }
    }
    const bytes = fetching()
    // It may fail after this generator has ended.
    bytes.catch(() => {})
    const done = (): void => {
      leave?.()
      endAhead?.()
    }
    coming.push({ bytes, done })
  }
  const count = partsOfFile(record.size)
  let current: ComingPart | undefined
  try {
    for (let [next, part] = [from, from]; part < count; part++) {
      if (coming.length === 0) begin(next++)
      while (next < count && coming.length < MOST_OF_FILE) {
        const endAhead = places.goAhead()
        if (!endAhead) break
        begin(next++, endAhead)
      }
      current = coming.shift()
      const bytes = (await current?.bytes) ?? new Uint8Array()
      if (!isWritten) current?.done()
      yield { bytes, at: part * FILE_PART_BYTES }
      current?.done()
    }
  } finally {
    ending.abort(StaticError.of('cancelled', 'The file is no longer fetched.'))
    current?.done()
    for (const { done } of coming) done()
  }
  return undefined
}

/** A part as its sender has signed it. Padding is fetched as well: otherwise the relay would learn the size. */
async function fetchSigned(
  line: PartTransfer,
  { size }: FileRecord,
  part: number,
  digests: Uint8Array,
): Promise<Uint8Array<ArrayBuffer>> {
  for (let tries = 1; ; tries++) {
    const bytes = await line.get(part, sealedBytesOf(size, part))
    if (await isSigned(bytes, part, digests)) return bytes
    release(bytes)
    if (tries === MOST_TRIES) {
      const text = `The relay gave other bytes for part ${part} than its sender has signed, twice. Nothing of them was used.`
      throw StaticError.of('file_corrupt', text)
    }
  }
}

async function askToken(
  agent: FileServices,
  { visible }: AgentFiles,
  { channelId }: AgentChannel,
  { fileId }: FileRecord,
  signal: AbortSignal,
): Promise<string> {
  const value = message(FileStatusRequestSchema, { channelId, fileId, visible })
  return await untilAborted(
    signal,
    agent.requests.ask({ case: 'fileStatus', value }, ({ sessionToken }) => sessionToken),
  )
}
