/**
 * Request bodies of unary calls: read within limits, and checked before the RPC library builds objects from them.
 * Memory grows with the data received, never with a length that a peer announces.
 */
import type { Readable } from 'node:stream'
import type { DescMessage, Message, MessageShape } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import { GRPC_PREFIX_BYTES } from '@static/protocol'
import { decodeEnvelope } from '@static/protocol/envelope'

/**
 * The maximum number of values in a message of either wire form, and their minimum average size in bytes, apart from a
 * few.
 */
const MOST_JSON_ITEMS = 65_536
const FREE_JSON_ITEMS = 256
const LEAST_JSON_ITEM_BYTES = 8
/** Approximate memory of one object of a decoded message: a byte string or a nested message. */
const OBJECT_BYTES = 128
const COMPRESSED = 1
/** Limit for a caller without a session token: enough for an OpenSession with a long JWT. */
export const MOST_STRANGER_BYTES = 8192

/**
 * Reads a body of at most `most` bytes that arrives within `ms` milliseconds. Every chunk must be granted.
 *
 * @throws {ConnectError} if it is longer, slower, incomplete, or not granted
 */
export function readBody(
  body: Readable,
  most: number,
  ms: number,
  grant: (bytes: number) => boolean,
): Promise<Uint8Array<ArrayBuffer>> {
  return new Promise((resolve, reject) => {
    let bytes = new Uint8Array(1024)
    let length = 0
    const fail = (text: string, code: Code): void => {
      stop()
      reject(new ConnectError(text, code))
    }
    const take = (chunk: Uint8Array): void => {
      if (length + chunk.length > most) {
        fail(`The request is longer than ${most} bytes.`, Code.ResourceExhausted)
        return
      }
      if (!grant(chunk.length)) {
        stop()
        reject(noRoom())
        return
      }
      if (length + chunk.length > bytes.length) {
        bytes = new Uint8Array(bytes.buffer.transfer(Math.max(2 * bytes.length, length + chunk.length)))
      }
      bytes.set(chunk, length)
      length += chunk.length
    }
    const end = (): void => {
      stop()
      resolve(bytes.subarray(0, length))
    }
    const gone = (): void => fail('The caller has disconnected.', Code.Canceled)
    const late = setTimeout(() => fail(`The request did not arrive within ${ms} ms.`, Code.DeadlineExceeded), ms)
    const stop = (): void => {
      clearTimeout(late)
      body.off('data', take).off('end', end).off('close', gone)
      // Ignore what still arrives.
      body.resume()
    }
    body
      .on('error', () => {})
      .on('data', take)
      .on('end', end)
      .on('close', gone)
  })
}

/** Whether a body of this type is JSON. */
export function isJson(contentType: string): boolean {
  return /json/i.test(contentType)
}

/** Removes gRPC's framing from the only message of a body. */
export function unframeMessage(body: Uint8Array): { readonly compressed: boolean; readonly message: Uint8Array } {
  const message = body.subarray(GRPC_PREFIX_BYTES)
  const [flags = 0] = body
  if (body.length < GRPC_PREFIX_BYTES || new DataView(body.buffer, body.byteOffset).getUint32(1) !== message.length) {
    throw new ConnectError('The request must be exactly one message.', Code.InvalidArgument)
  }
  return { compressed: (flags & COMPRESSED) !== 0, message }
}

/**
 * Rejects bodies that are short but would become many objects. The library decodes them again, which costs little
 * compared with its other work. The decoded size must be granted, because a call may wait for its turn.
 *
 * @throws {ConnectError} for a malformed body, or if it is not granted
 */
export function checkBody(
  type: DescMessage,
  contentType: string,
  body: Uint8Array,
  grant: (bytes: number) => boolean,
): void {
  const framed = /^application\/(grpc|connect)/i.test(contentType)
  const { compressed, message } = framed ? unframeMessage(body) : { compressed: false, message: body }
  // The library rejects those itself, in the form of each protocol.
  if (compressed) return
  const bytes = isJson(contentType) ? countJson(message) * OBJECT_BYTES : decodedBytes(decodeMessage(type, message))
  if (!grant(bytes)) throw noRoom()
}

/**
 * Decodes a message.
 *
 * @throws {ConnectError} if it is malformed
 */
export function decodeMessage<Type extends DescMessage>(type: Type, message: Uint8Array): MessageShape<Type> {
  try {
    return decodeEnvelope('protobuf', type, message, message.length)
  } catch (error) {
    throw ConnectError.from(error, Code.InvalidArgument)
  }
}

/** Approximate memory of a decoded message in addition to its bytes. */
export function decodedBytes(message: Message): number {
  return countObjects(message) * OBJECT_BYTES
}

/** The error when there is no room for another call. */
export function noRoom(): ConnectError {
  return new ConnectError('Too many requests are in progress. Retry later.', Code.ResourceExhausted)
}

function countObjects(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  if (value instanceof Uint8Array) return 1
  return Object.values(value).reduce<number>((sum, each) => sum + countObjects(each), 1)
}

/**
 * Every value but the first follows one of these characters. Characters inside strings also count, but are usually few.
 */
function countJson(text: Uint8Array): number {
  let items = 1
  for (const byte of text) {
    if (byte === 0x2c || byte === 0x5b || byte === 0x7b) items++
  }
  const most = Math.min(MOST_JSON_ITEMS, FREE_JSON_ITEMS + Math.floor(text.length / LEAST_JSON_ITEM_BYTES))
  if (items > most) throw new ConnectError(`The request has more than ${most} values.`, Code.InvalidArgument)
  return items
}
