/**
 * `static channel listen --save DIR`: saves the file of each message before the message is printed or handed to a
 * program. What is too large, or finds no room in the directory, stays at the relay (`static channel files`). Where files
 * were saved is kept in the agent's directory, because a message may come again after its file was saved.
 */
import { mkdirSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { readPrivateFile, replaceFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import type { Message } from '../../agent/actions.ts'
import { shownFileName } from '../../agent/file-names.ts'
import type { OpenAgent } from '../../agent/open.ts'
import type { SavedMessage } from '../../handlers/command.ts'
import { totalOf } from '../../agent/directory-size.ts'
import { byteText, followTransfer } from '../../agent/transfer.ts'
import { note } from '../../terminal/output.ts'

/** Flags for saving files. */
export interface SaveFlags {
  readonly save?: string
  readonly maxFile?: number
  readonly maxTotal?: number
}

const MIB = 1024 * 1024
const MAX_FILE = 64 * MIB
const MAX_TOTAL = 1024 * MIB
const RECORD = 'saved-files.json'
const MOST_RECORDED = 256
/** The next attempt may succeed. */
const PASSING: ReadonlySet<string> = new Set([
  'unavailable',
  'files_unavailable',
  'rate_limited',
  'transport_error',
  'closed',
])

export function addSaveFlags(command: Command): Command {
  return command
    .option('--save <dir>', 'save the file of each message in a directory')
    .addOption(
      new Option('--max-file <bytes>', 'with --save: larger files stay at the relay, such as 64MiB')
        .argParser(byteCount)
        .default(MAX_FILE, '64MiB'),
    )
    .addOption(
      new Option('--max-total <bytes>', 'with --save: what the files in the directory may take together')
        .argParser(byteCount)
        .default(MAX_TOTAL, '1GiB'),
    )
}

/** Reads a number of bytes: `1000`, `64KiB`, `64MiB`, `1GiB`. */
function byteCount(text: string): number {
  const [, digits = '', unit = ''] = /^([1-9]\d{0,14})(KiB|MiB|GiB)?$/.exec(text) ?? []
  const bytes = Number(digits) * { KiB: 1024, MiB: MIB, GiB: 1024 * MIB, '': 1 }[unit as 'KiB' | 'MiB' | 'GiB' | '']
  if (digits !== '' && Number.isSafeInteger(bytes)) return bytes
  throw new InvalidArgumentError('Expected a number of bytes, such as 1000, 64KiB, 64MiB or 1GiB.')
}

/** Saves the files of messages. */
export class FileSaver {
  readonly #directory: string
  readonly #maxFile: number
  readonly #maxTotal: number
  readonly #record: string
  /** Paths by channel and index. */
  readonly #saved: Map<string, string>

  private constructor(directory: string, { maxFile = MAX_FILE, maxTotal = MAX_TOTAL }: SaveFlags, record: string) {
    this.#directory = directory
    this.#maxFile = maxFile
    this.#maxTotal = maxTotal
    this.#record = record
    this.#saved = new Map(readRecord(record))
  }

  /** Undefined without --save. Throws `invalid_request` if the directory cannot be used. */
  static open(flags: SaveFlags, agentDirectory: string): FileSaver | undefined {
    if (flags.save === undefined) return undefined
    const directory = resolve(flags.save)
    try {
      mkdirSync(directory, { recursive: true, mode: 0o700 })
      readdirSync(directory)
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      throw StaticError.of('invalid_request', `--save: cannot use ${directory} (${code}). Pass a directory.`, { cause })
    }
    return new FileSaver(directory, flags, join(agentDirectory, RECORD))
  }

  /**
   * Saves the file of a message. With `retries`, throws what may be over at the next attempt; otherwise the file stays
   * at the relay.
   */
  async save(agent: OpenAgent, message: Message, retries: boolean): Promise<SavedMessage> {
    const { file, channel, index } = message
    if (!file) return message
    const place = `${channel}@${index}`
    const known = this.#saved.get(place)
    if (known !== undefined) return { ...message, file: { ...file, path: known } }
    try {
      this.#check(file.size)
      const id = await agent.call('startSave', channel, index, this.#directory)
      const done = await followTransfer(agent, id, { doing: `Saving ${shownFileName(file.safe_name)}` })
      if (!('path' in done)) throw StaticError.of('internal_error')
      this.#keep(place, done.path)
      return { ...message, file: { ...file, path: done.path } }
    } catch (error) {
      if (!(error instanceof StaticError)) throw error
      const { code, message: reason } = error
      if (retries && PASSING.has(code)) throw error
      note(`file ${shownFileName(file.name)} was not saved: ${reason}`)
      return { ...message, file: { ...file, error: { code, message: reason } } }
    }
  }

  #check(size: number): void {
    if (size > this.#maxFile) {
      const problem = `The file has ${byteText(size)}, more than --max-file (${byteText(this.#maxFile)}).`
      throw StaticError.of('too_large', `${problem} \`static channel files save\` saves it.`)
    }
    const total = totalOf(this.#directory)
    if (total + size > this.#maxTotal) {
      const problem = `${this.#directory} holds ${byteText(total)}, and --max-total is ${byteText(this.#maxTotal)}.`
      throw StaticError.of('too_large', `${problem} Move files away, then save it with \`static channel files save\`.`)
    }
  }

  #keep(place: string, path: string): void {
    this.#saved.set(place, path)
    for (const oldest of this.#saved.keys()) {
      if (this.#saved.size <= MOST_RECORDED) break
      this.#saved.delete(oldest)
    }
    replaceFile(this.#record, `${JSON.stringify([...this.#saved])}\n`, 0o600)
  }
}

function readRecord(path: string): readonly (readonly [string, string])[] {
  try {
    const found: unknown = JSON.parse(readPrivateFile(path)?.toString() ?? '[]')
    return (Array.isArray(found) ? found : []).filter(
      (pair): pair is [string, string] =>
        Array.isArray(pair) && pair.length === 2 && pair.every((one) => typeof one === 'string'),
    )
  } catch (error) {
    if (error instanceof SyntaxError) return []
    throw error
  }
}
