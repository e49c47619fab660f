/** Payloads of members on stdout, for people and for programs. */
import { byteText } from '../../agent/transfer.ts'
import type { SavedMessage } from '../../handlers/command.ts'
import { printable, styled } from '../../terminal/output.ts'

type Shown = Pick<SavedMessage, 'payload' | 'sender' | 'time' | 'file'>

/** A readable line on a terminal, the raw bytes in a pipe. */
export function textOf(message: Shown): string | Uint8Array {
  if (process.stdout.isTTY) return lineOf(message)
  const bytes = Buffer.from(message.payload, 'base64')
  return bytes.at(-1) === 0x0a ? bytes : Buffer.concat([bytes, Buffer.from('\n')])
}

/** A message with its time and sender, without characters that a terminal would act on. */
export function lineOf({ payload, sender, time, file }: Shown): string {
  const bytes = Buffer.from(payload, 'base64')
  const text = textIn(bytes) ?? `(${bytes.length} bytes of binary data)`
  const clock = new Date(time).toTimeString().slice(0, 8)
  const lines = [...text.replace(/\n+$/, '').split('\n').map(printable), ...(file ? [fileLine(file)] : [])]
    .filter((line, at) => at > 0 || line !== '' || !file)
    .join('\n    ')
  return `${styled('dim', clock)} ${styled('cyan', sender.name)}: ${lines}\n`
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
function fileLine({ id, name, size, path }: NonNullable<Shown['file']>): string {
  const place = path === undefined ? `file ${id}` : `saved as ${path}`
  return styled('dim', `[${printable(name)}, ${byteText(size)}, ${place}]`)
}
