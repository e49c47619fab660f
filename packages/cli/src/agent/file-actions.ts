/**
 * The actions of commands on files. A transfer goes on between two calls and is found again by its id; it ends when
 * nobody asks about it any longer, because its command has ended.
 */
import { randomUUID } from 'node:crypto'
import { basename } from 'node:path'
import { StaticError } from '@static/protocol'
import type { Channel, ReceivedFile, StaticChannelManager } from '@static/sdk'
import { openBelow } from './open-below.ts'
import { type SenderSummary, senderNow } from './members.ts'

/** A file that a message sends. */
export interface OfferedFile {
  readonly id: string
  /** As its sender chose it. */
  readonly name: string
  readonly safe_name: string
  readonly type: string
  readonly size: number
}

/** A file that was neither saved nor dropped. */
export interface FileSummary extends OfferedFile {
  readonly index: number
  readonly message_id: string
  readonly time: string
  readonly sender: SenderSummary
}

/** How far a transfer is; with `done`, where it led. */
export interface TransferState {
  readonly bytes: number
  readonly size: number
  readonly done?:
    | { readonly path: string }
    | { readonly file_id: string; readonly message_id: string; readonly index: number }
}

/** Answers of the socket are limited. */
const MOST_LISTED = 500
const MOST_NAME = 200
const MS = 1000
/** A transfer that no one asks about for so long ends. */
const ABANDONED_MS = 60_000

interface Transfer {
  bytes: number
  size: number
  done: TransferState['done']
  error: unknown
  readonly stop: AbortController
  /** Resolved at each change. */
  changed: PromiseWithResolvers<void>
  abandoned: NodeJS.Timeout
}

/** The transfers of each manager. */
const TRANSFERS = new WeakMap<StaticChannelManager, Map<string, Transfer>>()

/** The file of a message as JSON. */
export function offeredFile({ id, name, safeName, type, size }: ReceivedFile): OfferedFile {
  return { id, name, safe_name: safeName, type, size }
}

/** The files of a channel that were neither saved nor dropped, the newest ones. */
export function filesOf(manager: StaticChannelManager, name: string): readonly FileSummary[] {
  const channel = manager.client.channel(name)
  return channel
    .files()
    .slice(-MOST_LISTED)
    .map((file) => summaryOf(channel, file))
}

/** Begins to send a file; returns the id of the transfer. */
export function startSend(
  manager: StaticChannelManager,
  name: string,
  path: string,
  about: { readonly name: string; readonly type: string; readonly text: string },
): string {
  const channel = manager.client.channel(name)
  return start(manager, async ({ signal, progress }) => {
    const { fileId, messageId, index } = await channel.sendFile(path, {
      ...(about.name === '' ? {} : { name: about.name }),
      type: about.type,
      text: about.text,
      signal,
      progress,
    })
    return { file_id: fileId, message_id: messageId, index }
  })
}

/**
 * Begins to send a file below a directory; returns the id of the transfer.
 *
 * @throws {StaticError} as `openBelow`
 */
export async function startSendFrom(
  manager: StaticChannelManager,
  name: string,
  { root, path }: { readonly root: string; readonly path: string },
  about: { readonly type: string; readonly text: string },
): Promise<string> {
  const channel = manager.client.channel(name)
  const { file, size } = await openBelow(root, path)
  return start(manager, async ({ signal, progress }) => {
    try {
      const bytes = file.createReadStream({ start: 0, autoClose: false, signal })
      const sent = await channel.sendFile(bytes, {
        name: basename(path),
        ...about,
        signal,
        progress: (done) => progress(done, size),
      })
      return { file_id: sent.fileId, message_id: sent.messageId, index: sent.index }
    } finally {
      await file.close().catch(() => {})
    }
  })
}

/** Begins to save the file of the message at this place; returns the id of the transfer. */
export function startSave(manager: StaticChannelManager, name: string, index: number, path: string): string {
  const file = fileAt(manager.client.channel(name), index)
  return start(manager, async (limits) => ({ path: await file.save(path, limits) }))
}

export async function dropFile(manager: StaticChannelManager, name: string, index: number): Promise<void> {
  await fileAt(manager.client.channel(name), index).drop()
}

/**
 * How far a transfer is: once it has more than `known` bytes, has ended, or after `wait` seconds.
 *
 * @throws {StaticError} the error that ended it
 */
export async function transferState(
  manager: StaticChannelManager,
  id: string,
  known: number,
  wait: number,
): Promise<TransferState> {
  const transfers = TRANSFERS.get(manager)
  const transfer = transfers?.get(id)
  if (!transfer) throw StaticError.of('not_found', 'This transfer is over.')
  transfer.abandoned.refresh()
  const late = AbortSignal.timeout(wait * MS)
  while (transfer.done === undefined && transfer.error === undefined && transfer.bytes <= known && !late.aborted) {
    const { promise, resolve } = Promise.withResolvers<void>()
    late.addEventListener('abort', () => resolve(), { once: true })
    await Promise.race([transfer.changed.promise, promise])
  }
  transfer.abandoned.refresh()
  if (transfer.error !== undefined) {
    end(manager, id)
    throw transfer.error
  }
  const { bytes, size, done } = transfer
  if (done) end(manager, id)
  return { bytes, size, ...(done && { done }) }
}

/** Stops a transfer. One that was to be sent is not sent; saving may continue later. */
export function cancelTransfer(manager: StaticChannelManager, id: string): void {
  TRANSFERS.get(manager)?.get(id)?.stop.abort()
  end(manager, id)
}

function start(
  manager: StaticChannelManager,
  work: (limits: {
    readonly signal: AbortSignal
    readonly progress: (bytes: number, size: number) => void
  }) => Promise<NonNullable<TransferState['done']>>,
): string {
  const id = randomUUID()
  const stop = new AbortController()
  const transfer: Transfer = {
    bytes: 0,
    size: 0,
    done: undefined,
    error: undefined,
    stop,
    changed: Promise.withResolvers(),
    abandoned: setTimeout(() => cancelTransfer(manager, id), ABANDONED_MS).unref(),
  }
  const change = (): void => {
    transfer.changed.resolve()
    transfer.changed = Promise.withResolvers()
  }
  const transfers = TRANSFERS.get(manager) ?? new Map<string, Transfer>()
  TRANSFERS.set(manager, transfers.set(id, transfer))
  const progress = (bytes: number, size: number): void => {
    transfer.bytes = bytes
    transfer.size = size
    change()
  }
  work({ signal: stop.signal, progress })
    .then(
      (done) => {
        transfer.done = done
      },
      (error: unknown) => {
        transfer.error = error ?? StaticError.of('internal_error')
      },
    )
    .finally(change)
  return id
}

function end(manager: StaticChannelManager, id: string): void {
  const transfers = TRANSFERS.get(manager)
  clearTimeout(transfers?.get(id)?.abandoned)
  transfers?.delete(id)
}

function fileAt(channel: Channel, index: number): ReceivedFile {
  const file = channel.files().find((each) => each.index === index)
  if (file) return file
  throw StaticError.of('file_expired', 'This file was saved or dropped before, or the relay no longer has it.')
}

function summaryOf(channel: Channel, file: ReceivedFile): FileSummary {
  const { index, messageId, time, sender } = file
  const { name, ...offered } = offeredFile(file)
  return {
    ...offered,
    // In full with its message: all of them must fit into one answer.
    name: name.slice(0, MOST_NAME),
    index,
    message_id: messageId,
    time: time.toISOString(),
    sender: senderNow(channel, sender),
  }
}
