/**
 * Messages between nodes as bytes: version(1) = 1, MAC(32), node(16), number(8), time(8), then items, each as JSON
 * behind its length(4), followed by the byte strings in it. The MAC is HMAC-SHA-256 under the deployment's bus key over
 * the subject and everything after the MAC: a carrier can neither change nor redirect a message. It is not encrypted:
 * the content is already encrypted by agents, but it shows who talks to whom.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { News, NodeId } from '../ports.ts'

const VERSION = 1
const MAC_BYTES = 32
const NODE_BYTES = 16
const HEAD_BYTES = 1 + MAC_BYTES + NODE_BYTES + 8 + 8
/** Bytes of a message that are not items. */
export const FRAME_OVERHEAD: number = HEAD_BYTES

/** The sender of a message, and when it was sent. */
export interface FrameHead {
  readonly node: NodeId
  /** Counts the messages of the node. */
  readonly number: number
  /** By the sender's wall clock. */
  readonly time: number
}

/** Makes a message of encoded items. */
export function sealFrame(key: Uint8Array, subject: string, head: FrameHead, items: readonly Uint8Array[]): Uint8Array {
  const frame = Buffer.concat([Buffer.alloc(HEAD_BYTES), ...items])
  frame[0] = VERSION
  frame.write(head.node, 1 + MAC_BYTES, 'hex')
  frame.writeBigUInt64BE(BigInt(head.number), HEAD_BYTES - 16)
  frame.writeBigUInt64BE(BigInt(head.time), HEAD_BYTES - 8)
  frame.set(macOf(key, subject, frame), 1)
  return frame
}

/** Opens a message. Undefined if it was sealed with another key, for another subject, or by another version. */
export function openFrame(
  key: Uint8Array,
  subject: string,
  bytes: Uint8Array,
): (FrameHead & { readonly items: () => readonly News[] }) | undefined {
  if (bytes.length < HEAD_BYTES || bytes[0] !== VERSION) return undefined
  const frame = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (!timingSafeEqual(macOf(key, subject, frame), frame.subarray(1, 1 + MAC_BYTES))) return undefined
  return {
    node: frame.toString('hex', 1 + MAC_BYTES, 1 + MAC_BYTES + NODE_BYTES),
    number: Number(frame.readBigUInt64BE(HEAD_BYTES - 16)),
    time: Number(frame.readBigUInt64BE(HEAD_BYTES - 8)),
    items: () => readItems(frame.subarray(HEAD_BYTES)),
  }
}

function macOf(key: Uint8Array, subject: string, frame: Uint8Array): Buffer {
  return createHmac('sha256', key)
    .update('static-bus/1\0')
    .update(`${subject}\0`)
    .update(frame.subarray(1 + MAC_BYTES))
    .digest()
}

/** Encodes one item. Byte strings and 64-bit numbers become objects with one key that starts with a dollar sign. */
export function encodeItem(news: News): Uint8Array {
  const blobs: Uint8Array[] = []
  const text = JSON.stringify(news, function (this: Record<string, unknown>, key: string, value: unknown): unknown {
    // Not `value`: by then a Buffer has already been converted by its own toJSON.
    const real = this[key]
    if (real instanceof Uint8Array) {
      blobs.push(real)
      return { $bytes: real.length }
    }
    return typeof real === 'bigint' ? { $int: real.toString() } : value
  })
  const json = Buffer.from(text)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(json.length)
  return Buffer.concat([length, json, ...blobs])
}

function readItems(bytes: Buffer): readonly News[] {
  const items: News[] = []
  let at = 0
  while (at < bytes.length) {
    const length = bytes.readUInt32BE(at)
    const json = bytes.toString('utf8', at + 4, at + 4 + length)
    at += 4 + length
    items.push(
      JSON.parse(json, (_key, value: unknown): unknown => {
        if (typeof value !== 'object' || value === null) return value
        if ('$int' in value) return BigInt(String(value.$int))
        if (!('$bytes' in value)) return value
        const from = at
        at += Number(value.$bytes)
        return new Uint8Array(bytes.subarray(from, at))
      }) as News,
    )
  }
  return items
}
