/** Cells between a proxy and its relay, in CBOR. */
import { isIPv4 } from 'node:net'
import { create } from '@bufbuild/protobuf'
import { type CellEvent, CellJoiner, cutEnvelope, makeCell, REVISION } from '@static/protocol'
import { convertEnvelope, encodeEnvelope } from '@static/protocol/envelope'
import { AckRequestSchema, type ClientMessage, ClientMessageSchema } from '@static/protocol/relay'

/** Request id of the hello. Agents count theirs up from 1 and never reach it. */
export const HELLO_ID = 0xffff_ffff_ffff_ffffn

/** Encodes a request for the relay. */
export function requestCells(message: ClientMessage): Uint8Array {
  return cutEnvelope(encodeEnvelope('cbor', ClientMessageSchema, message))
}

/**
 * The first message on every stream: the proxy's revision, the agent's address, and whether the stream is for one unary
 * call, which the relay counts and answers as such.
 */
export function helloCells(address: string, call = false): Uint8Array {
  return requestCells(
    create(ClientMessageSchema, {
      requestId: HELLO_ID,
      body: { case: 'proxyHello', value: { revision: REVISION, agentAddress: addressBytes(address), call } },
    }),
  )
}

/** Encodes a self-contained cell from an agent for the relay. */
export function loneCell(type: 'ack' | 'ping' | 'pong', payload: Uint8Array): Uint8Array {
  const converted =
    type === 'ack' ? convertEnvelope('protobuf', 'cbor', AckRequestSchema, payload, payload.length) : payload
  return makeCell(type, converted)
}

/** Decodes the relay's cells; `failed` is called for malformed ones, which end the stream. */
export function cellReader(
  take: (event: CellEvent) => void,
  failed: (error: unknown) => void,
): (bytes: Uint8Array) => void {
  const joiner = new CellJoiner(Number.MAX_SAFE_INTEGER)
  return (bytes) => {
    try {
      joiner.push(bytes, take)
    } catch (error) {
      failed(error)
    }
  }
}

/** The 4 or 16 bytes of an address. */
function addressBytes(address: string): Uint8Array {
  if (isIPv4(address)) return Uint8Array.from(address.split('.'), Number)
  const [bare = ''] = address.split('%')
  const [head = '', tail = ''] = bare.split('::')
  const left = head === '' ? [] : head.split(':')
  const right = tail === '' ? [] : tail.split(':')
  const groups = [...left, ...Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0'), ...right]
  return Uint8Array.from(
    groups.flatMap((group) => [Number.parseInt(group, 16) >>> 8, Number.parseInt(group, 16) & 0xff]),
  )
}
