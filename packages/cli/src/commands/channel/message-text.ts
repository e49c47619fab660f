/** Payloads of members on stdout, for people and for programs. */
import { shownFileName } from '../../agent/file-names.ts'
import { byteText } from '../../agent/transfer.ts'
import type { SavedMessage } from '../../handlers/command.ts'
import { printable, styled } from '../../terminal/output.ts'
import { wrapped } from '../../terminal/wrapped.ts'

interface Shown extends Pick<SavedMessage, 'payload' | 'sender' | 'time'> {
  readonly file?: ShownFile | undefined
}

/** Without an id if it cannot be fetched any longer. */
interface ShownFile {
  readonly name: string
  readonly size: number
  readonly id?: string
  readonly path?: string
}

/** A readable line on a terminal, the raw bytes in a pipe. */
export function textOf(message: Shown): string | Uint8Array {
  if (process.stdout.isTTY) return lineOf(message)
  const bytes = Buffer.from(message.payload, 'base64')
  return bytes.at(-1) === 0x0a ? bytes : Buffer.concat([bytes, Buffer.from('\n')])
}

/** Before each further line of a text, and before our own line about its file: no text begins there. */
const TEXT_GUTTER = '    '
const FILE_GUTTER = '  '

/**
 * A message with its time and sender, without characters that a terminal would act on. Its text cannot pass for another
 * line of ours: each further line is indented, also where the terminal would break it.
 */
export function lineOf(
  { payload, sender, time, file }: Shown,
  columns: number = process.stdout.columns || Infinity,
): string {
  const bytes = Buffer.from(payload, 'base64')
  const text = textIn(bytes) ?? `(${bytes.length} bytes of binary data)`
  const clock = new Date(time).toTimeString().slice(0, 8)
  const room = columns - TEXT_GUTTER.length
  const used = `${clock} ${sender.name}: `.length
  const lines = text
    .replace(/\n+$/, '')
    .split('\n')
    .flatMap((line, at) => wrapped(printable(line), at === 0 ? columns - used : room, room))
  const about = file ? wrapped(fileLine(file), columns - FILE_GUTTER.length, room) : []
  const aboutLines = about.map((line, at) => `${at === 0 ? FILE_GUTTER : TEXT_GUTTER}${styled('dim', line)}\n`)
  const head = `${styled('dim', clock)} ${styled('cyan', sender.name)}: `
  return `${head}${lines.join(`\n${TEXT_GUTTER}`)}\n${aboutLines.join('')}`
}

/** The payload as text; undefined if it is not UTF-8. */
export function textIn(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** What a message sends beside its text, and where it is. */
function fileLine({ id, name, size, path }: ShownFile): string {
  const place = path === undefined ? id : `saved as ${printable(path)}`
  return `file ${shownFileName(name)} (${byteText(size)})${place === undefined ? '' : `: ${place}`}`
}
