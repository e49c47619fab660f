/** Payloads: strings and bytes. Any other type would arrive as something the caller did not intend. */
import { MAX_PAYLOAD_BYTES, StaticError } from '@static/protocol'

/**
 * The bytes of a payload, copied, because the caller may reuse the buffer before they are encrypted.
 *
 * @throws {StaticError} `invalid_request` for anything but a string or a Uint8Array, `too_large`
 */
export function payloadBytes(payload: unknown, most: number = MAX_PAYLOAD_BYTES): Uint8Array {
  const bytes = typeof payload === 'string' ? new TextEncoder().encode(payload) : payload
  // Views with wider elements are refused, because their bytes depend on the machine.
  if (!isBytes(bytes)) {
    throw StaticError.of(
      'invalid_request',
      `A payload must be a string or a Uint8Array, not ${typeOf(payload)}. ${remedyFor(payload)}`,
    )
  }
  if (bytes.length > most) {
    throw StaticError.of('too_large', `The payload has ${bytes.length} bytes; the limit is ${most}.`)
  }
  return bytes === payload ? Uint8Array.from(bytes) : bytes
}

/**
 * A value as JSON.
 *
 * @throws {StaticError} `invalid_request` for a value that JSON cannot hold
 */
export function jsonText(value: unknown): string {
  let text: string | undefined
  let cause: unknown
  try {
    text = JSON.stringify(value) as string | undefined
  } catch (error) {
    cause = error
  }
  if (text !== undefined) return text
  const why = cause instanceof Error ? `: ${cause.message.split('\n', 1)[0]}` : ''
  throw StaticError.of('invalid_request', `${capitalized(typeOf(value))} cannot be sent as JSON${why}.`, { cause })
}

const typedArray: object = Object.getPrototypeOf(Uint8Array.prototype)

/** Whether it is a Uint8Array, even one from another realm, which `instanceof` does not recognize. */
function isBytes(value: unknown): value is Uint8Array {
  return ArrayBuffer.isView(value) && Reflect.get(typedArray, Symbol.toStringTag, value) === 'Uint8Array'
}

function typeOf(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (typeof value !== 'object') return `a ${typeof value}`
  const { constructor } = value
  const name = typeof constructor === 'function' && constructor.name !== '' ? constructor.name : 'Object'
  return name === 'Object' ? 'an object' : `${/^[AEIOU]/.test(name) ? 'an' : 'a'} ${name}`
}

function remedyFor(payload: unknown): string {
  if (/^\[object (Shared)?ArrayBuffer\]$/.test(Object.prototype.toString.call(payload)))
    return 'Pass `new Uint8Array(buffer)`.'
  if (ArrayBuffer.isView(payload))
    return 'Pass its bytes: `new Uint8Array(view.buffer, view.byteOffset, view.byteLength)`.'
  return 'Use `sendJson` for other values.'
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
