/** How the vectors are made: the layout of SPEC.md, 3.3, with Node's cryptography alone, and the agents that sign. */
import { createCipheriv, createHash, createHmac, createPrivateKey, createPublicKey, sign } from 'node:crypto'

export type Field = Buffer | string | number | readonly Field[]

/** The layout of SPEC.md, 3.3. */
export function lengthPrefixed(fields: readonly Field[]): Buffer {
  return Buffer.concat(
    fields.flatMap((field) => {
      const bytes = toBytes(field)
      const length = Buffer.alloc(4)
      length.writeUInt32BE(bytes.length)
      return [length, bytes]
    }),
  )
}

function toBytes(field: Field): Buffer {
  if (typeof field === 'number') return number8(field)
  if (typeof field === 'string') return Buffer.from(field)
  return Buffer.isBuffer(field) ? field : lengthPrefixed(field)
}

export function number2(value: number): Buffer {
  return Buffer.of(value >> 8, value & 0xff)
}

export function number4(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

export function number8(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(value))
  return bytes
}

export function signedBytes(context: string, fields: readonly Field[]): Buffer {
  return Buffer.concat([Buffer.from(`${' '.repeat(64)}${context}\0`), lengthPrefixed(fields)])
}

export const sha256 = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest()
export const hmac = (key: Buffer, bytes: Buffer): Buffer => createHmac('sha256', key).update(bytes).digest()
/** AES-256-GCM: the ciphertext, then the tag. */
export function gcm(key: Buffer, nonce: Buffer, additional: Buffer, plain: Buffer): Buffer {
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(additional)
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

/** Bytes that count up, so that a swapped or reversed field shows. */
export const run = (first: number, length: number): Buffer =>
  Buffer.from(Array.from({ length }, (_, at) => (first + at) & 255))

/** A text in which every byte string is hex. */
export function text(value: unknown): string {
  const hexed = (item: unknown): unknown => {
    if (Buffer.isBuffer(item)) return item.toString('hex')
    if (Array.isArray(item)) return item.map(hexed)
    if (typeof item !== 'object' || item === null) return item
    return Object.fromEntries(Object.entries(item).map(([key, inner]) => [key, hexed(inner)]))
  }
  return `${JSON.stringify(hexed(value), undefined, 2)}\n`
}

/** An agent's Ed25519 key. */
export interface Agent {
  readonly seed: Buffer
  readonly publicKey: Buffer
  readonly agentId: Buffer
}

const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex')

function keyOf(seed: Buffer): ReturnType<typeof createPrivateKey> {
  return createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: 'der', type: 'pkcs8' })
}

function agentOf(seed: Buffer): Agent {
  const publicKey = createPublicKey(keyOf(seed)).export({ format: 'der', type: 'spki' }).subarray(-32)
  return { seed, publicKey, agentId: sha256(publicKey) }
}

export const owner: Agent = agentOf(run(0, 32))
export const guest: Agent = agentOf(run(100, 32))
export const channelId: Buffer = run(0x10, 16)
/** A message id: its last four bits are zero. */
export const idOf = (first: number): Buffer => Buffer.concat([run(first, 15), Buffer.of((first + 15) & 0xf0)])

/** The bytes of a context and fields, and what the agent's signature of them is. */
export function signed(
  agent: Agent,
  context: string,
  fields: readonly Field[],
): { context: string; bytes: Buffer; seed: Buffer; signature: Buffer } {
  const bytes = signedBytes(context, fields)
  return { context, bytes, seed: agent.seed, signature: sign(null, bytes, keyOf(agent.seed)) }
}
