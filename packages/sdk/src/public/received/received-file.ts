/** Files of other members, as the application gets them. */
import { DropFileRequestSchema } from '@static/protocol/relay'
import { fromHex, message, StaticError, toHex } from '@static/protocol'
import type { Agent } from '../../agent/agent.ts'
import type { AgentChannel } from '../../channel/channel.ts'
import type { OfferedFile } from '../../channel/receiving/content.ts'
import type { MemberProof } from '../../channel/proving/member-proof.ts'
import { dropFile, readFile, saveFile } from '../../files/receive-file.ts'
import { safeName } from '../../files/safe-name.ts'
import type { FileRecord } from '../../ports/index.ts'
import type { ErrorEdge } from '../error-edge.ts'
import { type ChannelMember, memberOf, timeOf } from './member.ts'
import { type SentFile, sendPath, sendStream } from '../../files/send-file.ts'
import { checkOptions } from '../options/call-options.ts'
import {
  aboutOf,
  cancelled,
  type ReadFileOptions,
  type SaveFileOptions,
  type SendFileOptions,
} from '../options/file-options.ts'

/** What tells files of a channel apart, and whose they are. */
type FilePlace = Pick<FileRecord, 'index' | 'messageId' | 'sender' | 'identity' | 'receivedAt'>

/** @internal What a file needs of its channel. */
export interface FileHome {
  readonly agent: Agent
  readonly channel: AgentChannel
  readonly edge: ErrorEdge
}

/** A file that a member has sent. Nothing of it is fetched before you ask for it. */
export class ReceivedFile {
  /** 32 hexadecimal digits. */
  readonly id: string
  /** The name that its sender has given it, unchecked: it may be a path, or contain anything. See `safeName`. */
  readonly name: string
  /** A name for it in a directory of this machine, as close to `name` as is safe. */
  readonly safeName: string
  /** The media type that its sender has given it, unchecked; empty if none. */
  readonly type: string
  /** In bytes. */
  readonly size: number
  /** Verified by the signature on its message. */
  readonly sender: ChannelMember
  /** Of its message: 32 hexadecimal digits. */
  readonly messageId: string
  /** Position of its message in the channel's log. */
  readonly index: number
  /** When the relay accepted its message, by the relay's clock. */
  readonly time: Date
  readonly #home: FileHome

  /** @internal Get files from envelopes and from `Channel.files`. */
  constructor(home: FileHome, { fileId, name, type, size }: OfferedFile, place: FilePlace, proof?: MemberProof) {
    this.#home = home
    this.id = toHex(fileId)
    this.name = name
    this.safeName = safeName(name)
    this.type = type
    this.size = size
    this.sender = memberOf(place.sender, place.identity, proof)
    this.messageId = toHex(place.messageId)
    this.index = place.index
    this.time = timeOf(place.receivedAt)
  }

  /**
   * Saves the file under a new path, or under its safe name in a directory, with a number if that is taken. Returns the
   * path. Until all of it is there, it is `PATH.part` beside it. Every part is checked against the signature of the
   * sender before it is written. An interrupted call, even of a program that was killed, continues with the same path.
   * Then the file is no longer among `Channel.files`, and the relay may delete it.
   *
   * @throws {StaticError} `file_corrupt` if the relay gives other bytes than the sender has signed, `file_expired`,
   *   `invalid_request` if the path exists or cannot be written, `not_allowed` with the traffic profiles `private` and
   *   `strict` unless the client has `visibleFiles`, `files_unavailable`, `rate_limited`, `cancelled`
   * @example const path = await envelope.file?.save('downloads')
   */
  async save(path: string, options: SaveFileOptions = {}): Promise<string> {
    const { edge } = this.#home
    return await edge.wait(async () => {
      checkOptions('save', options)
      if (typeof path !== 'string' || path === '')
        throw StaticError.of('invalid_request', '`path` must be a non-empty string.')
      const { signal, done } = cancelled(options.signal, 'The file was not saved. The signal was aborted.')
      try {
        return await saveFile(this.#place, path, { signal, progress: options.progress ?? ((): void => {}) })
      } finally {
        done()
      }
    })
  }

  /**
   * The bytes of the file, in order, each part checked against the signature of the sender. The file stays until you
   * drop it.
   *
   * @throws {StaticError} as `save`
   * @example for await (const bytes of file.stream()) hash.update(bytes)
   */
  stream(options: ReadFileOptions = {}): AsyncIterableIterator<Uint8Array, undefined, undefined> {
    const { edge } = this.#home
    edge.run(() => checkOptions('stream', options))
    const { signal } = cancelled(options.signal, 'The file is no longer read. The signal was aborted.')
    return edge.iterate(readFile(this.#place, signal))
  }

  /**
   * Drops the file: this agent does not want it, or is done with it.
   *
   * @throws {StaticError} `file_expired` if it was saved or dropped before
   */
  async drop(): Promise<void> {
    await this.#home.edge.wait(() => dropFile(this.#place))
  }

  get #place(): { agent: Agent; channel: AgentChannel; index: number } {
    const { agent, channel } = this.#home
    return { agent, channel, index: this.index }
  }
}

/** @internal Sends a file to all members. */
export async function sendFile(
  { agent, channel }: FileHome,
  source: string | AsyncIterable<Uint8Array>,
  options: SendFileOptions,
): Promise<SentFile> {
  checkOptions('sendFile', options)
  const { signal, done } = cancelled(options.signal, 'The file was not sent. The signal was aborted.')
  const about = { ...aboutOf(source, options), signal, progress: options.progress ?? ((): void => {}) }
  try {
    if (typeof source === 'string') return await sendPath(agent, channel, source, about)
    if (typeof source?.[Symbol.asyncIterator] === 'function') return await sendStream(agent, channel, source, about)
  } finally {
    done()
  }
  throw StaticError.of('invalid_request', 'The file must be a path or a stream of bytes (an async iterable).')
}

/** @internal Deletes a file for all members. */
export async function deleteFile({ agent, channel }: FileHome, id: string): Promise<void> {
  if (typeof id !== 'string' || !/^[0-9a-f]{32}$/.test(id))
    throw StaticError.of('invalid_request', 'The id of a file has 32 hexadecimal digits.')
  const value = message(DropFileRequestSchema, { channelId: channel.channelId, fileId: fromHex(id), everyone: true })
  await agent.requests.ask({ case: 'dropFile', value }, () => {})
  for (const { fileId, index } of channel.files.list()) {
    // A call that saves it finds out by itself.
    if (toHex(fileId) === id && !channel.files.isBusy(index)) await channel.files.forget(index)
  }
  await channel.files.log()
}
