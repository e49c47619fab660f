/** Options of the calls that send and fetch files. */
import { StaticError } from '@static/protocol'
import { isFileType, MOST_NAME_BYTES, MOST_TEXT_BYTES, MOST_TYPE_BYTES } from '../../files/file-frame.ts'

/** Options of `Channel.sendFile`. */
export interface SendFileOptions {
  /** The name that the receivers get. Default: that of the path without its directory; for a stream, `file`. */
  readonly name?: string
  /** The media type that the receivers get, such as `image/png`. Default: none. */
  readonly type?: string
  /** The payload of the message, at most 65,536 bytes: what the receivers' `messages()` yields. Default: none. */
  readonly text?: string
  /** Called with the bytes of the file that the relay has stored so far, and its size. */
  readonly progress?: (bytes: number, size: number) => void
  /** Ends the call when it is aborted: nothing is sent, and the relay deletes the parts that it has. */
  readonly signal?: AbortSignal
}

/** Options of `ReceivedFile.save`. */
export interface SaveFileOptions {
  /** Called with the bytes that are saved so far, and the size of the file. */
  readonly progress?: (bytes: number, size: number) => void
  /** Ends the call when it is aborted. Another call continues. */
  readonly signal?: AbortSignal
}

/** Options of `ReceivedFile.stream`. */
export interface ReadFileOptions {
  /** Ends the stream with an error when it is aborted. */
  readonly signal?: AbortSignal
}

const USUAL_NAME = 'file'

/** @internal What goes with a file, checked. */
export function aboutOf(
  source: unknown,
  { name = typeof source === 'string' ? baseName(source) : USUAL_NAME, type = '', text = '' }: SendFileOptions,
): { readonly name: string; readonly type: string; readonly text: string } {
  checkLength('name', name, MOST_NAME_BYTES)
  checkLength('text', text, MOST_TEXT_BYTES)
  if (name === '') throw StaticError.of('invalid_request', '`name` is empty. It must have at least one character.')
  if (!isFileType(type))
    throw StaticError.of(
      'invalid_request',
      `\`type\` must be at most ${MOST_TYPE_BYTES} characters of ASCII, such as image/png.`,
    )
  return { name, type, text }
}

/** @internal A signal that is aborted with a StaticError when another one is. `done` forgets it. */
export function cancelled(signal: AbortSignal | undefined, text: string): { signal: AbortSignal; done: () => void } {
  const controller = new AbortController()
  const abort = (): void => controller.abort(StaticError.of('cancelled', text, { cause: signal?.reason }))
  if (signal?.aborted === true) abort()
  signal?.addEventListener('abort', abort, { once: true })
  return { signal: controller.signal, done: () => signal?.removeEventListener('abort', abort) }
}

function baseName(path: string): string {
  return path.split(/[/\\]/).findLast((part) => part !== '') ?? USUAL_NAME
}

function checkLength(option: 'name' | 'text', value: string, most: number): void {
  // A lone surrogate has no UTF-8 encoding.
  if (!value.isWellFormed()) throw StaticError.of('invalid_request', `\`${option}\` is not valid Unicode.`)
  const { length } = new TextEncoder().encode(value)
  if (length > most) throw StaticError.of('too_large', `\`${option}\` has ${length} bytes; the limit is ${most}.`)
}
