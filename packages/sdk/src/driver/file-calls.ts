/** Calls about files. Their bytes stay in this process, except those that the program wants to read itself. */
import { StaticError } from '@static/protocol'
import type { Channel } from '../public/channel.ts'
import type { ReceivedFile } from '../public/received/received-file.ts'
import type { PendingCalls } from './pending-calls.ts'
import type { Call, CallResult, FileCall, PlainFile, Tell } from './pipe-protocol.ts'
import { given, plainMember } from './plain.ts'

const NAMES: { readonly [Name in FileCall['do']]: true } = {
  sendFile: true,
  files: true,
  saveFile: true,
  dropFile: true,
  deleteFile: true,
  readFile: true,
  nextBytes: true,
  leaveFile: true,
}

export function isFileCall(call: Call & { readonly id: number }): call is FileCall & { readonly id: number } {
  return Object.hasOwn(NAMES, call.do)
}

/** The files of one program. */
export class FileCalls {
  readonly #tell: Tell
  readonly #pending: PendingCalls
  /** Files that the program is reading. */
  readonly #reading = new Map<number, AsyncIterator<Uint8Array, undefined>>()
  #numbers = 0

  constructor(tell: Tell, pending: PendingCalls) {
    this.#tell = tell
    this.#pending = pending
  }

  async answer(channelOf: (call: FileCall) => Channel, call: FileCall & { readonly id: number }): Promise<CallResult> {
    switch (call.do) {
      case 'sendFile': {
        const channel = channelOf(call)
        const about = { ...given(call, 'name', 'type', 'text'), progress: this.#progressOf(call.id) }
        return {
          result: await this.#pending.run(call, ({ signal }) => channel.sendFile(call.path, { ...about, signal })),
        }
      }
      case 'files':
        return { result: channelOf(call).files().map(listedFile) }
      case 'saveFile': {
        const file = fileOf(channelOf(call), call.index)
        const progress = this.#progressOf(call.id)
        return { result: await this.#pending.run(call, ({ signal }) => file.save(call.path, { progress, signal })) }
      }
      case 'dropFile':
        await fileOf(channelOf(call), call.index).drop()
        return {}
      case 'deleteFile':
        await channelOf(call).deleteFile(call.file)
        return {}
      case 'readFile': {
        const number = ++this.#numbers
        this.#reading.set(number, fileOf(channelOf(call), call.index).stream())
        return { result: number }
      }
      case 'nextBytes':
        return await this.#next(call.reading)
      case 'leaveFile':
        await this.#leave(call.reading)
        return {}
    }
  }

  async #next(number: number): Promise<CallResult> {
    const next = await this.#reading.get(number)?.next()
    if (next && next.done !== true) return { result: false, bytes: next.value }
    this.#reading.delete(number)
    return { result: true }
  }

  async #leave(number: number): Promise<void> {
    const reading = this.#reading.get(number)
    this.#reading.delete(number)
    await reading?.return?.()
  }

  #progressOf(call: number): (bytes: number, size: number) => void {
    return (bytes, size) => this.#tell({ event: 'progress', call, bytes, size })
  }
}

/** What the program gets of a file beside its message. */
export function plainFile({ id, name, safeName, type, size }: ReceivedFile): PlainFile {
  return { id, name, safeName, type, size }
}

function listedFile(file: ReceivedFile): unknown {
  const { sender, messageId, index, time } = file
  return { ...plainFile(file), sender: plainMember(sender), messageId, index, time: time.getTime() }
}

function fileOf(channel: Channel, index: number): ReceivedFile {
  const file = channel.files().find((each) => each.index === index)
  if (file) return file
  const text = 'This agent has saved or dropped the file, or the relay no longer has it.'
  throw StaticError.of('file_expired', text)
}
